//! The state of the routes that all calls share. It consists of pauses after failures and of measured latencies.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuron_model::ProviderError;

use crate::clock::{Instant, later};
use crate::failure::is_outage;

/// Maximum number of measured calls of a route, for each [`Form`].
const MEASURED: usize = 9;

/// Maximum age of a measurement. Without a limit, a route that was slow once would never be measured again.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The form of the response that a caller requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Streamed,
}

/// The pauses and the latencies of all routes. The routes are identified by their index.
#[derive(Debug)]
pub(crate) struct Health {
    routes: Mutex<Vec<RouteHealth>>,
    /// Time during which a route is avoided after a failure.
    cooling_off: Duration,
}

/// The pauses and the latencies of a route.
#[derive(Debug, Clone, Default)]
struct RouteHealth {
    /// End of the delay that the vendor requested. Before it, the route is not called.
    retry_at: Option<Instant>,
    /// End of the cooling-off time. Before it, the route is called only after all others.
    cool_until: Option<Instant>,
    /// Latencies of streamed calls, and the times at which they were measured.
    streamed: VecDeque<(Instant, Duration)>,
    /// Latencies of calls that are not streamed.
    whole: VecDeque<(Instant, Duration)>,
    /// Time of the last failure since the last answer.
    failed_at: Option<Instant>,
}

/// The median latency of a route, or the reason why there is none. [`Order::Latency`](crate::Order) sorts routes in the order
/// of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Latency {
    /// The route was not called recently.
    Unmeasured,
    /// The median of the recent calls.
    Median(Duration),
    /// The route failed recently instead of being measured.
    Failed,
}

impl Health {
    /// Creates the state of routes that have not been called yet.
    pub(crate) fn new(routes: usize, cooling_off: Duration) -> Self {
        Self { routes: Mutex::new(vec![RouteHealth::default(); routes]), cooling_off }
    }

    /// Returns the rest of the delay that the vendor requested. Returns `None` if the route may be called.
    pub(crate) fn delay(&self, index: usize, now: Instant) -> Option<Duration> {
        rest(self.lock().get(index)?.retry_at, now)
    }

    /// Returns the rest of the route's cooling-off time. Returns `None` if the route does not cool off.
    pub(crate) fn cooling(&self, index: usize, now: Instant) -> Option<Duration> {
        rest(self.lock().get(index)?.cool_until, now)
    }

    /// Records that the call of a route failed. Pauses the route, if the error is about the route and not about the
    /// request.
    pub(crate) fn failed(&self, index: usize, error: &ProviderError, now: Instant) {
        self.change(index, |route| {
            route.failed_at = Some(now);
            // The calls before say nothing about a model that is gone.
            if let ProviderError::ModelNotFound(_) = error {
                route.streamed.clear();
                route.whole.clear();
            }
            if let Some(delay) = error.retry_after() {
                route.retry_at = route.retry_at.max(Some(later(now, delay)));
            } else if is_outage(error) {
                route.cool_until = Some(later(now, self.cooling_off));
            }
        });
    }

    /// Ends the cooling-off time of a route that answered. A delay that the vendor requested stays, because the answer
    /// may belong to an earlier call.
    pub(crate) fn answered(&self, index: usize) {
        self.change(index, |route| (route.cool_until, route.failed_at) = (None, None));
    }

    /// Adds the latency of a call.
    pub(crate) fn measured(&self, index: usize, form: Form, now: Instant, latency: Duration) {
        self.change(index, |route| {
            let latencies = route.latencies(form);
            if latencies.len() == MEASURED {
                latencies.pop_front();
            }
            latencies.push_back((now, latency));
        });
    }

    /// Returns the median latency of a route, or the reason why there is none.
    pub(crate) fn latency(&self, index: usize, form: Form, now: Instant) -> Latency {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < MAX_AGE;
        let mut routes = self.lock();
        let Some(route) = routes.get_mut(index) else { return Latency::Unmeasured };
        let has_failed = route.failed_at.is_some_and(is_recent);
        let latencies = route.latencies(form);
        latencies.retain(|(at, _)| is_recent(*at));
        let mut sorted: Vec<Duration> = latencies.iter().map(|(_, latency)| *latency).collect();
        sorted.sort_unstable();
        match sorted.get(sorted.len() / 2) {
            Some(median) => Latency::Median(*median),
            None if has_failed => Latency::Failed,
            None => Latency::Unmeasured,
        }
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut RouteHealth)) {
        self.lock().get_mut(index).map(change);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RouteHealth>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time until `end`. Returns `None` if it is over.
fn rest(end: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = end?.saturating_duration_since(now);
    (!left.is_zero()).then_some(left)
}

impl RouteHealth {
    fn latencies(&mut self, form: Form) -> &mut VecDeque<(Instant, Duration)> {
        match form {
            Form::Whole => &mut self.whole,
            Form::Streamed => &mut self.streamed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn busy() -> ProviderError {
        ProviderError::ServiceUnavailable("529 busy".into())
    }

    #[test]
    fn vendor_delay_blocks_and_other_outages_cool_off() {
        let (health, now) = (Health::new(3, SECOND * 15), Instant::now());
        health.failed(0, &busy().with_retry_after(SECOND * 2), now);
        health.failed(1, &busy(), now);
        health.failed(2, &ProviderError::ContextWindowExceeded("too long".into()), now);
        assert_eq!([0, 1, 2].map(|it| health.delay(it, now)), [Some(SECOND * 2), None, None]);
        assert_eq!([0, 1, 2].map(|it| health.cooling(it, now)), [None, Some(SECOND * 15), None]);
        assert_eq!(health.delay(0, now + SECOND * 2), None);
        assert_eq!(health.cooling(1, now + SECOND * 15), None);
    }

    #[test]
    fn shorter_delay_does_not_replace_a_longer_delay_and_an_answer_only_ends_cooling() {
        let (health, now) = (Health::new(1, SECOND), Instant::now());
        health.failed(0, &busy().with_retry_after(SECOND * 9), now);
        health.failed(0, &busy().with_retry_after(SECOND), now);
        health.failed(0, &busy(), now);
        health.answered(0);
        assert_eq!((health.delay(0, now), health.cooling(0, now)), (Some(SECOND * 9), None));
        // A delay that the clock cannot represent.
        health.failed(0, &busy().with_retry_after(Duration::MAX), now);
        assert!(health.delay(0, now).is_some());
    }

    #[test]
    fn latency_is_the_median_of_recent_calls_of_one_form() {
        let (health, now) = (Health::new(1, SECOND), Instant::now());
        assert_eq!(health.latency(0, Form::Streamed, now), Latency::Unmeasured);
        for seconds in 1..=20 {
            health.measured(0, Form::Streamed, now, SECOND * seconds);
        }
        health.measured(0, Form::Whole, now, SECOND * 99);
        assert_eq!(health.latency(0, Form::Streamed, now), Latency::Median(SECOND * 16));
        assert_eq!(health.latency(0, Form::Whole, now), Latency::Median(SECOND * 99));
        assert_eq!(health.latency(0, Form::Streamed, now + MAX_AGE), Latency::Unmeasured);
        assert_eq!(health.latency(7, Form::Streamed, now), Latency::Unmeasured);
    }

    #[test]
    fn failure_hides_a_missing_measurement_until_it_is_old_or_the_route_answers() {
        let (health, now) = (Health::new(1, SECOND), Instant::now());
        let latency = |now| health.latency(0, Form::Whole, now);
        health.failed(0, &busy(), now);
        assert_eq!((latency(now), latency(now + MAX_AGE)), (Latency::Failed, Latency::Unmeasured));
        health.answered(0);
        assert_eq!(latency(now), Latency::Unmeasured);
        health.measured(0, Form::Whole, now, SECOND);
        health.failed(0, &busy(), now);
        assert_eq!(latency(now), Latency::Median(SECOND));
        health.failed(0, &ProviderError::ModelNotFound("gone".into()), now);
        assert_eq!(latency(now), Latency::Failed);
    }
}
