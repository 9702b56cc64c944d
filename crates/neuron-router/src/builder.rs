//! The builder of a router.

use std::sync::Arc;
use std::time::Duration;

use neuron_model::{ProviderError, RequestRef, WasmCompatSend, WasmCompatSync};

#[cfg(not(target_family = "wasm"))]
use crate::Shadow;
use crate::health::Health;
use crate::random::Random;
use crate::shared::Shared;
use crate::sticky::Sticky;
use crate::{Order, Route, Router};

/// Default time during which a route is avoided after a failure.
const COOLING_OFF: Duration = Duration::from_secs(15);

/// A builder of a [`Router`]. Created by [`Router::builder`].
#[derive(Debug)]
#[must_use]
pub struct RouterBuilder {
    routes: Vec<Route>,
    order: Order,
    cooling_off: Duration,
    deadline: Option<Duration>,
    hedge_after: Option<Duration>,
    falls_back_on_authentication: bool,
    sticky: Option<Sticky>,
    seed: Option<u64>,
    #[cfg(not(target_family = "wasm"))]
    shadow: Option<Shadow>,
}

impl Router {
    /// Returns a builder without routes.
    pub fn builder() -> RouterBuilder {
        RouterBuilder {
            routes: Vec::new(),
            order: Order::default(),
            cooling_off: COOLING_OFF,
            deadline: None,
            hedge_after: None,
            falls_back_on_authentication: false,
            sticky: None,
            seed: None,
            #[cfg(not(target_family = "wasm"))]
            shadow: None,
        }
    }
}

impl RouterBuilder {
    /// Adds a route.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Sets the order in which the routes are preferred. Default: the order in which they were added.
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets the time limit of a whole call, with all its routes. Default: no limit.
    ///
    /// The limit of a streamed call applies until its first content. After that, the timeouts of the provider apply.
    /// There is no limit without a timer, see [`clock`](neuron_model::clock).
    ///
    /// An open call ends with a `Timeout` that has the time of this call. Its route cools off if this time is at least
    /// half of the limit. A route that was called later had too little time to count as failed.
    pub fn deadline(self, limit: Duration) -> Self {
        Self { deadline: Some(limit), ..self }
    }

    /// Sets the time during which a route is avoided after an outage. Default: 15 seconds. Zero avoids no route.
    ///
    /// A route that cools off is called only after all other routes failed. An answer of the route ends the time early.
    /// If the vendor requested a delay, the route is not called at all during this delay. A call that is still open when
    /// the delay ends may call the route.
    pub fn cooling_off(self, time: Duration) -> Self {
        Self { cooling_off: time, ..self }
    }

    /// Calls the next route too if the first content of a stream, or the response of a call that is not streamed, does
    /// not arrive within this time. Default: never.
    ///
    /// The first route to answer wins, and the other call is dropped. The vendors may bill both calls, although the
    /// usage of the response counts only one. The [metadata](neuron_model::AnswerRoute::cancelled) names the cancelled
    /// routes. At most two routes are called at the same time. A route that cools off is not called beside another.
    ///
    /// If one of the two calls fails, the other continues. After an error [without fallback](crate#fallback), for
    /// example `InvalidRequest`, no further route is called.
    pub fn hedge_after(self, time: Duration) -> Self {
        Self { hedge_after: Some(time), ..self }
    }

    /// Calls the next route also after [`ProviderError::Authentication`]. Default: the error is returned, because a
    /// wrong key is a mistake in the configuration.
    pub fn fall_back_on_authentication(self) -> Self {
        Self { falls_back_on_authentication: true, ..self }
    }

    /// Prefers the route that answered the conversation last, for the vendor's prompt cache. Default: off.
    ///
    /// The argument is the maximum number of conversations that the router remembers. An odd number is rounded up. A
    /// conversation is recognised by its system prompt and its first user message, also in later runs and
    /// after it was loaded from a session. Conversations with the same beginning share the route, and with it the
    /// vendor's cache of this beginning. If the beginning changes, for example in a compaction, the cache is invalid
    /// and the conversation counts as another. For another key, see [`sticky_by`](Self::sticky_by).
    pub fn sticky(self, conversations: usize) -> Self {
        Self { sticky: Some(Sticky::new(conversations, None)), ..self }
    }

    /// Prefers the route that answered the conversation last, with a function that returns the key of a conversation.
    ///
    /// Requests with the same key belong to the same conversation. A request with the key `None` is not sticky. Do not
    /// add a field to `extra` for the key, because the provider sends all fields of `extra` to the vendor.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_router::Router;
    ///
    /// tokio::task_local! {
    ///     /// The number of the session, which the program sets with `SESSION.scope(number, agent.run(…))`.
    ///     static SESSION: u64;
    /// }
    ///
    /// let builder = Router::builder().sticky_by(1_000, |_| SESSION.try_with(|number| *number).ok());
    /// # let _ = builder;
    /// ```
    pub fn sticky_by(
        self,
        conversations: usize,
        key: impl Fn(&RequestRef<'_>) -> Option<u64> + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        Self { sticky: Some(Sticky::new(conversations, Some(Arc::new(key)))), ..self }
    }

    /// Sets the seed of [`Order::Weighted`] and of the selection of shadow calls. Default: another seed in every
    /// process.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sends a share of the calls also to another route, whose answers the caller does not receive. Default: none.
    #[cfg(not(target_family = "wasm"))]
    pub fn shadow(self, shadow: Shadow) -> Self {
        Self { shadow: Some(shadow), ..self }
    }

    /// Creates the router.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if there is no route, if two routes have the same name, or if the share of the
    /// shadow is not between 0 and 1.
    pub fn build(self) -> Result<Router, ProviderError> {
        let invalid = |text: String| Err(ProviderError::InvalidRequest(text));
        if self.routes.is_empty() {
            return invalid("the router has no routes: add one with `route`".into());
        }
        let mut names: Vec<&str> = self.routes.iter().map(Route::name).collect();
        names.sort_unstable();
        if let Some(name) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            let name = name.first().copied().unwrap_or_default();
            return invalid(format!("two routes have the name `{name}`: rename one"));
        }
        #[cfg(not(target_family = "wasm"))]
        if let Some(share) =
            self.shadow.as_ref().map(|it| it.share).filter(|it| !(0.0..=1.0).contains(it))
        {
            return invalid(format!("the share of the shadow is {share}: use a share from 0 to 1"));
        }
        Ok(Router::new(Shared {
            health: Health::new(self.routes.len(), self.cooling_off),
            models: self.routes.iter().flat_map(Route::models).collect(),
            routes: self.routes,
            order: self.order,
            deadline: self.deadline,
            hedge_after: self.hedge_after,
            falls_back_on_authentication: self.falls_back_on_authentication,
            sticky: self.sticky,
            random: Random::new(self.seed),
            #[cfg(not(target_family = "wasm"))]
            shadow: self.shadow,
        }))
    }
}
