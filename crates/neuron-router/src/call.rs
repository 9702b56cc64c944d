//! Calls the routes of a router until one of them answers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use neuron_model::clock::within;
use neuron_model::{
    AnswerRoute, ErrorRecord, FailedRoute, Provider, ProviderError, RequestRef, WasmBoxedFuture,
    WasmCompatSend, WasmCompatSync,
};
use tracing::Span;
use tracing::field::Empty;

use crate::Route;
use crate::clock::Instant;
use crate::failure::{Skipped, SkippedRoute, error_of_call, is_of_engine};
use crate::health::Form;
use crate::shared::Shared;
use crate::sticky::Key;

/// The answer of a route.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    /// Index of the route.
    pub(crate) index: usize,
    /// The route and the failed calls, for the metadata of the answer.
    pub(crate) route: AnswerRoute,
    /// The span of the route.
    pub(crate) span: Span,
}

/// Calls routes until the first of them answers.
///
/// `start` calls a route. Its third argument is `true` if the request addresses the route, and its last argument is the
/// span of the route.
///
/// # Errors
///
/// The [error](error_of_call) of a call that no route answered.
///
/// # Cancel safety
///
/// Dropping the future cancels the calls of all routes.
pub(crate) async fn first_answer<'a, T, S>(
    shared: &'a Shared,
    request: RequestRef<'a>,
    form: Form,
    start: S,
) -> Result<Answered<T>, ProviderError>
where
    T: WasmCompatSend,
    S: Fn(&'a Route, RequestRef<'a>, bool, Span) -> WasmBoxedFuture<'a, Result<T, ProviderError>>
        + WasmCompatSend
        + WasmCompatSync,
{
    let mut call = Call::new(shared, request, form);
    let mut open = Vec::new();
    match within(shared.deadline, call.race(&mut open, &start)).await {
        Some(Some((attempt, answer))) => Ok(call.answered(attempt, answer, open)),
        Some(None) => Err(call.into_error()),
        None => {
            let limit = shared.deadline.unwrap_or_default();
            for attempt in open {
                call.timed_out(attempt, limit);
            }
            call.skip_rest(Skipped::Deadline);
            Err(call.into_error())
        }
    }
}

/// Records the failure of a route on its span. The text of the error is left out, because it may quote the request.
pub(crate) fn record_failure(span: &Span, error: &ProviderError) {
    span.record("error.type", error.kind());
    span.record("otel.status_code", "ERROR");
}

/// An open call of a route.
struct Attempt<'a, T> {
    /// Index of the route.
    index: usize,
    started: Instant,
    span: Span,
    answer: WasmBoxedFuture<'a, Result<T, ProviderError>>,
}

/// The state of a call. It calls no route twice, because each route is in one of the lists once.
struct Call<'a> {
    shared: &'a Shared,
    request: RequestRef<'a>,
    form: Form,
    /// Index of the route that the request addresses. See [`Route`].
    addressed: usize,
    key: Option<Key>,
    /// Routes that were not called yet, the preferred first.
    ready: VecDeque<usize>,
    /// Routes that cool off after a failure. They are called after all others.
    cooling: VecDeque<usize>,
    failed: Vec<(String, ProviderError)>,
    skipped: Vec<SkippedRoute>,
    /// Set if no further route may be called. The open calls continue.
    is_over: bool,
}

impl<'a> Call<'a> {
    fn new(shared: &'a Shared, request: RequestRef<'a>, form: Form) -> Self {
        let (routes, health, now) = (&shared.routes, &shared.health, Instant::now());
        let mut ranked = shared.order.rank(routes, &request, (health, form, now), &shared.random);
        let key = shared.sticky.as_ref().and_then(|sticky| sticky.key(&request));
        let stuck = shared.sticky.as_ref().zip(key).and_then(|(sticky, key)| sticky.get(key));
        let named = routes.iter().position(|route| route.is_named(request.model));
        let addressed = named.unwrap_or(0);
        let first = (!request.model.is_empty()).then_some(addressed);
        for index in [stuck, first].into_iter().flatten() {
            ranked.retain(|other| *other != index);
            ranked.insert(0, index);
        }
        let (mut ready, mut cooling) = (VecDeque::new(), Vec::new());
        for index in ranked {
            match health.cooling(index, now) {
                Some(left) => cooling.push((left, index)),
                None => ready.push_back(index),
            }
        }
        // The sort is stable, so that equal routes keep their order.
        cooling.sort_by_key(|(left, _)| *left);
        let cooling = cooling.into_iter().map(|(_, index)| index).collect();
        let (failed, skipped) = (Vec::new(), Vec::new());
        Self {
            shared,
            request,
            form,
            addressed,
            key,
            ready,
            cooling,
            failed,
            skipped,
            is_over: false,
        }
    }

    /// Calls routes until one answers. Returns `None` if no route is left, or after the error of a durable engine. The
    /// open calls are in `open`.
    async fn race<T, S>(
        &mut self,
        open: &mut Vec<Attempt<'a, T>>,
        start: &S,
    ) -> Option<(Attempt<'a, T>, T)>
    where
        S: Fn(
            &'a Route,
            RequestRef<'a>,
            bool,
            Span,
        ) -> WasmBoxedFuture<'a, Result<T, ProviderError>>,
    {
        loop {
            if open.is_empty() {
                if self.is_over {
                    return None;
                }
                let Some(attempt) = self.next(true).and_then(|index| self.start(index, start))
                else {
                    // The delay of a route may have ended just now.
                    self.skip_rest(Skipped::Paused(Duration::ZERO));
                    return None;
                };
                open.push(attempt);
            }
            match within(self.hedge_after(open.len()), first_ready(open)).await {
                None => {
                    let attempt = self.next(false).and_then(|index| self.start(index, start));
                    open.extend(attempt);
                }
                Some((position, outcome)) => {
                    let attempt = open.swap_remove(position);
                    let error = match outcome {
                        Ok(answer) => return Some((attempt, answer)),
                        Err(error) => error,
                    };
                    // The engine ends or suspends the run, so the answers of other routes are not needed.
                    let is_of_engine = is_of_engine(&error);
                    self.failed(attempt, error);
                    if is_of_engine {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns the time after which another route is called beside the open call. Returns `None` if no other route may
    /// be called.
    fn hedge_after(&self, open: usize) -> Option<Duration> {
        // At most one route is called beside another.
        let time = self.shared.hedge_after.filter(|_| open == 1 && !self.is_over)?;
        let now = Instant::now();
        let delay = |index: &usize| self.shared.health.delay(*index, now).unwrap_or_default();
        Some(time.max(self.ready.iter().map(delay).min()?))
    }

    /// Takes the next route that may be called now. Routes that cool off are included if `with_cooling` is set. A route
    /// whose vendor requested a delay stays in its list, because the delay may end during the call.
    fn next(&mut self, with_cooling: bool) -> Option<usize> {
        let (health, now) = (&self.shared.health, Instant::now());
        let take = |routes: &mut VecDeque<usize>| {
            let position = routes.iter().position(|index| health.delay(*index, now).is_none())?;
            routes.remove(position)
        };
        let ready = take(&mut self.ready);
        match ready {
            None if with_cooling => take(&mut self.cooling),
            ready => ready,
        }
    }

    /// Starts the call of a route.
    fn start<T, S>(&self, index: usize, start: &S) -> Option<Attempt<'a, T>>
    where
        S: Fn(
            &'a Route,
            RequestRef<'a>,
            bool,
            Span,
        ) -> WasmBoxedFuture<'a, Result<T, ProviderError>>,
    {
        let route = self.shared.routes.get(index)?;
        let span = tracing::info_span!(
            target: "neuron_router",
            "route",
            otel.name = format!("route {}", route.name()),
            otel.status_code = Empty,
            route.name = route.name(),
            gen_ai.provider.name = route.provider().info().name,
            gen_ai.request.model = Empty,
            "error.type" = Empty,
        );
        let answer = start(route, self.request, index == self.addressed, span.clone());
        Some(Attempt { index, started: Instant::now(), span, answer })
    }

    /// Records the failure of a route, and removes the routes that cannot answer either.
    fn failed<T>(&mut self, attempt: Attempt<'a, T>, error: ProviderError) {
        if matches!(error, ProviderError::ContextWindowExceeded(_)) {
            self.skip_windows_up_to(self.window(attempt.index));
        }
        // The model that the request names says nothing about the route.
        let is_of_request = matches!(error, ProviderError::ModelNotFound(_))
            && attempt.index == self.addressed
            && !self.request.model.is_empty();
        if !is_of_request {
            self.is_over |= !self.shared.failed(attempt.index, &error);
        }
        self.record(attempt, error);
    }

    /// Records that a route did not answer before the deadline of the call.
    fn timed_out<T>(&mut self, attempt: Attempt<'a, T>, deadline: Duration) {
        let time = attempt.started.elapsed();
        let error = ProviderError::Timeout(time);
        // A route that was called shortly before the deadline may work.
        if time >= deadline / 2 {
            self.shared.failed(attempt.index, &error);
        }
        self.record(attempt, error);
    }

    /// Adds the error of a route to the span of the route and to the error of the call.
    fn record<T>(&mut self, attempt: Attempt<'a, T>, error: ProviderError) {
        let Attempt { index, span, .. } = attempt;
        record_failure(&span, &error);
        span.in_scope(|| tracing::warn!(error.kind = error.kind(), "a route failed"));
        self.failed.push((self.name(index), error));
    }

    /// Skips the routes whose context window is not larger than the given window. An unknown window is the smallest.
    fn skip_windows_up_to(&mut self, exceeded: Option<usize>) {
        let (routes, mut skipped) = (&self.shared.routes, Vec::new());
        let mut is_larger = |index: &usize| {
            let window = routes.get(*index).and_then(|route| route.context_window);
            let is_larger = window > exceeded;
            skipped.extend((!is_larger).then_some(*index));
            is_larger
        };
        self.ready.retain(&mut is_larger);
        self.cooling.retain(&mut is_larger);
        for index in skipped {
            self.skip(index, Skipped::Window);
        }
    }

    /// Skips all routes that were not called. The reason applies to the routes whose vendors requested no delay.
    fn skip_rest(&mut self, reason: Skipped) {
        let now = Instant::now();
        for index in self.take_rest() {
            let delay = self.shared.health.delay(index, now);
            self.skip(index, delay.map_or(reason, Skipped::Paused));
        }
    }

    /// Takes all routes that were not called, the preferred first.
    fn take_rest(&mut self) -> Vec<usize> {
        self.ready.drain(..).chain(self.cooling.drain(..)).collect()
    }

    fn skip(&mut self, index: usize, reason: Skipped) {
        self.skipped.push(SkippedRoute { name: self.name(index), reason });
    }

    fn name(&self, index: usize) -> String {
        self.shared.routes.get(index).map(|route| route.name().to_owned()).unwrap_or_default()
    }

    fn window(&self, index: usize) -> Option<usize> {
        self.shared.routes.get(index)?.context_window
    }

    /// Records the answer of a route, and cancels the calls of the other routes.
    fn answered<T>(
        self,
        attempt: Attempt<'a, T>,
        answer: T,
        others: Vec<Attempt<'a, T>>,
    ) -> Answered<T> {
        let (Attempt { index, started, span, .. }, now) = (attempt, Instant::now());
        let health = &self.shared.health;
        let latency = now.saturating_duration_since(started);
        health.answered(index);
        health.measured(index, self.form, now, latency);
        if let Some((sticky, key)) = self.shared.sticky.as_ref().zip(self.key) {
            sticky.set(key, index);
        }
        let provider = self.shared.routes.get(index).map(|route| route.provider().info().name);
        let mut route = AnswerRoute::new(self.name(index), provider.unwrap_or_default());
        for (name, error) in &self.failed {
            route.failed.push(FailedRoute::new(name.clone(), ErrorRecord::from(error)));
        }
        for other in others {
            // The latency of the cancelled call is unknown. It counts only if the route was slower than the other.
            let time = now.saturating_duration_since(other.started);
            if time > latency {
                health.measured(other.index, self.form, now, time);
            }
            route.cancelled.push(self.name(other.index));
        }
        Answered { answer, index, route, span }
    }

    fn into_error(self) -> ProviderError {
        error_of_call(self.failed, self.skipped)
    }
}

/// Waits for the first outcome of the open calls. Returns the position of the call and its outcome.
fn first_ready<'o, T>(
    open: &'o mut [Attempt<'_, T>],
) -> impl Future<Output = (usize, Result<T, ProviderError>)> + 'o {
    poll_fn(move |cx| {
        for (position, Attempt { span, answer, .. }) in open.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = span.in_scope(|| answer.as_mut().poll(cx)) {
                return Poll::Ready((position, outcome));
            }
        }
        Poll::Pending
    })
}
