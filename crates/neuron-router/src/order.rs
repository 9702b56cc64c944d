//! The order in which a call prefers the routes.

use std::fmt;
use std::sync::Arc;

use neuron_model::{RequestRef, WasmCompatSend, WasmCompatSync};

use crate::Route;
use crate::clock::Instant;
use crate::health::{Form, Health};
use crate::random::Random;

/// The order in which a router prefers its routes. Routes of the same rank keep the order in which they were added.
///
/// Whatever the order, the route that a request [names](Route#the-request-of-a-route) is called first, then the route
/// to which the conversation is [sticky](crate::RouterBuilder::sticky). Routes that cool off after a failure are called
/// last.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Order {
    /// The order in which the routes were added. This is the default.
    #[default]
    Listed,
    /// The [price](Route::price) of the routes, the lowest first.
    Price,
    /// The price by a function, the lowest first. Created by [`price_by`](Self::price_by).
    PriceBy(PriceFunction),
    /// The measured latency, the lowest first.
    ///
    /// The latency is the median of the last nine calls within ten minutes. A streamed call is measured until its first
    /// content, and a call that is not streamed until its response. A call that was cancelled because another route
    /// answered is measured until then, if it took longer than the answer. A route without a measurement comes first,
    /// so that it is measured. If it failed instead, it comes last for ten minutes. The measurements of a route end when
    /// its vendor no longer knows the model.
    Latency,
    /// A random order, in which a route with twice the [weight](Route::weight) is twice as likely to come first.
    ///
    /// [`RouterBuilder::seed`](crate::RouterBuilder::seed) makes the order reproducible.
    Weighted,
}

impl Order {
    /// Creates an order by a function that returns the price of a call in any unit, the lowest first. A route with the
    /// price `None` or NaN comes last.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_router::Order;
    ///
    /// let order = Order::price_by(|request, route| match route.model_name() {
    ///     "large" => Some(15.0),
    ///     // Long conversations are more expensive with this model.
    ///     "small" if request.messages.len() > 50 => Some(20.0),
    ///     "small" => Some(1.0),
    ///     _ => None,
    /// });
    /// # let _ = order;
    /// ```
    pub fn price_by(
        price: impl Fn(&RequestRef<'_>, &Route) -> Option<f64>
        + WasmCompatSend
        + WasmCompatSync
        + 'static,
    ) -> Self {
        Self::PriceBy(PriceFunction(Arc::new(price)))
    }

    /// Returns the indices of all routes, the preferred first.
    pub(crate) fn rank(
        &self,
        routes: &[Route],
        request: &RequestRef<'_>,
        (health, form, now): (&Health, Form, Instant),
        random: &Random,
    ) -> Vec<usize> {
        let by = |price: &dyn Fn(usize, &Route) -> f64| {
            let mut ranked: Vec<(f64, usize)> = routes
                .iter()
                .enumerate()
                .map(|(index, route)| (price(index, route), index))
                .collect();
            // The sort is stable, so that routes of the same price keep their order.
            ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            ranked.into_iter().map(|(_, index)| index).collect()
        };
        let known = |price: Option<f64>| price.filter(|it| !it.is_nan()).unwrap_or(f64::INFINITY);
        match self {
            Self::Listed => (0..routes.len()).collect(),
            Self::Price => by(&|_, route| known(route.price)),
            Self::PriceBy(PriceFunction(price)) => {
                by(&|_, route| known(price.price(request, route)))
            }
            Self::Latency => {
                let mut ranked: Vec<usize> = (0..routes.len()).collect();
                ranked.sort_by_cached_key(|index| health.latency(*index, form, now));
                ranked
            }
            Self::Weighted => shuffled(routes, random),
        }
    }
}

/// Returns the indices of all routes in a random order by their weights.
fn shuffled(routes: &[Route], random: &Random) -> Vec<usize> {
    let mut left: Vec<(usize, u64)> =
        routes.iter().enumerate().map(|(index, route)| (index, route.weight.into())).collect();
    let mut ranked = Vec::with_capacity(left.len());
    loop {
        let mut rest = random.below(left.iter().map(|(_, weight)| weight).sum());
        // Without any weight left, no position is found.
        let position = left.iter().position(|(_, weight)| {
            let is_hit = rest < *weight;
            rest = rest.saturating_sub(*weight);
            is_hit
        });
        let Some(position) = position else {
            ranked.extend(left.into_iter().map(|(index, _)| index));
            return ranked;
        };
        ranked.push(left.remove(position).0);
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "Listed",
            Self::Price => "Price",
            Self::PriceBy(_) => "PriceBy",
            Self::Latency => "Latency",
            Self::Weighted => "Weighted",
        })
    }
}

/// A function that returns the price of a call. Created by [`Order::price_by`].
#[derive(Clone)]
pub struct PriceFunction(Arc<dyn Price>);

impl fmt::Debug for PriceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriceFunction").finish_non_exhaustive()
    }
}

/// A function that returns the price of a call. The trait exists because closures need no `Send` on wasm.
trait Price: WasmCompatSend + WasmCompatSync {
    fn price(&self, request: &RequestRef<'_>, route: &Route) -> Option<f64>;
}

impl<F> Price for F
where
    F: Fn(&RequestRef<'_>, &Route) -> Option<f64> + WasmCompatSend + WasmCompatSync,
{
    fn price(&self, request: &RequestRef<'_>, route: &Route) -> Option<f64> {
        self(request, route)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuron_testing::ScriptedProvider;

    use super::*;

    fn route(name: &str) -> Route {
        Route::new(name, ScriptedProvider::default())
    }

    fn rank(order: &Order, routes: &[Route], health: &Health, random: &Random) -> Vec<usize> {
        let state = (health, Form::Streamed, Instant::now());
        order.rank(routes, &RequestRef::default(), state, random)
    }

    #[test]
    fn price_sorts_unknown_prices_last_and_keeps_equal_routes_in_order() {
        let routes = [
            route("a"),
            route("b").price(f64::NAN),
            route("c").price(3.0),
            route("d").price(1.0),
            route("e").price(3.0),
        ];
        let health = Health::new(routes.len(), Duration::ZERO);
        let random = Random::new(Some(1));
        assert_eq!(rank(&Order::Price, &routes, &health, &random), [3, 2, 4, 0, 1]);
        assert_eq!(rank(&Order::Listed, &routes, &health, &random), [0, 1, 2, 3, 4]);
        let order = Order::price_by(|_, route| (route.name() != "a").then_some(-1.0));
        assert_eq!(rank(&order, &routes, &health, &random), [1, 2, 3, 4, 0]);
    }

    #[test]
    fn latency_sorts_by_median_and_unmeasured_routes_come_first() {
        let routes = [route("a"), route("b"), route("c")];
        let health = Health::new(routes.len(), Duration::ZERO);
        let now = Instant::now();
        for (index, millis) in [(0, 50), (1, 20), (1, 20), (1, 900)] {
            health.measured(index, Form::Streamed, now, Duration::from_millis(millis));
        }
        let random = Random::new(Some(1));
        assert_eq!(rank(&Order::Latency, &routes, &health, &random), [2, 1, 0]);
    }

    #[test]
    fn weights_determine_the_share_of_first_calls_and_each_order_has_every_route() {
        let routes = [route("a").weight(3), route("b"), route("c").weight(0)];
        let health = Health::new(routes.len(), Duration::ZERO);
        let random = Random::new(Some(1));
        let mut first = [0; 3];
        for _ in 0..4_000 {
            let ranked = rank(&Order::Weighted, &routes, &health, &random);
            assert_eq!((ranked.len(), ranked[2]), (3, 2));
            first[ranked[0]] += 1;
        }
        assert!((2_850..3_150).contains(&first[0]), "{first:?}");
        assert_eq!(rank(&Order::Weighted, &[], &health, &random), [0_usize; 0]);
    }
}
