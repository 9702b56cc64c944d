//! The kinds of failures, and the error of a call that no route answered.

use std::fmt;
use std::time::Duration;

use neuron_model::{DurableError, ErrorRecord, FailedRoute, ProviderError};

/// Returns `true` if another route may answer a request that failed with this error.
pub(crate) fn falls_back(error: &ProviderError, is_authentication_allowed: bool) -> bool {
    match error {
        ProviderError::ContextWindowExceeded(_) | ProviderError::ModelNotFound(_) => true,
        ProviderError::Authentication(_) => is_authentication_allowed,
        error => is_outage(error),
    }
}

/// Returns `true` if the error says that the route does not work at present, for any request.
pub(crate) fn is_outage(error: &ProviderError) -> bool {
    // A key that was rejected is rejected for the next request too.
    error.is_retryable_from_start()
        || matches!(
            error,
            ProviderError::InsufficientResources(_) | ProviderError::Authentication(_)
        )
}

/// Returns `true` for the error of a durable engine. The engine ends or suspends the run with this error, so it must
/// reach the agent loop unchanged.
pub(crate) fn is_of_engine(error: &ProviderError) -> bool {
    match error {
        ProviderError::Other(source) => source.is::<DurableError>(),
        _ => false,
    }
}

/// A route that was not called, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedRoute {
    pub(crate) name: String,
    pub(crate) reason: Skipped,
}

/// The reason why a route was not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// The vendor requested a delay, of which this time is left.
    Paused(Duration),
    /// The context window is not larger than the window that the request exceeded.
    Window,
    /// The deadline of the call expired before.
    Deadline,
}

/// The reasons why no route answered a call.
///
/// This is the source of a [`ProviderError::Network`] or [`ProviderError::Other`] of a [`Router`](crate::Router). Other
/// variants of the error can carry only a text, which contains the same list. See
/// [errors of a router](crate#errors).
///
/// # Example
///
/// ```
/// use std::error::Error;
///
/// use neuron_router::RoutesFailed;
/// use neuron_model::ProviderError;
///
/// /// Returns the names of the routes that failed.
/// fn failed(error: &ProviderError) -> Vec<&str> {
///     let failed = error.source().and_then(|source| source.downcast_ref::<RoutesFailed>());
///     failed.map(|it| it.failed().iter().map(|route| &*route.name).collect()).unwrap_or_default()
/// }
/// # let _ = failed;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutesFailed {
    failed: Vec<FailedRoute>,
    skipped: Vec<SkippedRoute>,
}

impl RoutesFailed {
    /// Returns the routes that were called, in the order of their failures, with their errors.
    #[must_use]
    pub fn failed(&self) -> &[FailedRoute] {
        &self.failed
    }

    /// Formats the list. An error that may quote a malformed response is shortened to its kind, unless
    /// `with_quotes` is set. The list does not end with a delay that [`ProviderError::retry_after`] parses.
    fn list(&self, with_quotes: bool) -> String {
        let failed = self.failed.iter().map(|FailedRoute { name, error, .. }| {
            let may_quote = matches!(&*error.kind, "Other" | "StreamError");
            match may_quote && !with_quotes {
                true => format!("`{name}`: {}", error.kind),
                false => format!("`{name}`: {}", error.clone().into_provider_error()),
            }
        });
        let skipped = self.skipped.iter().map(|SkippedRoute { name, reason }| match reason {
            Skipped::Paused(left) => format!("`{name}` was not called: retry after {left:?}"),
            Skipped::Window => format!("`{name}` was not called: its window is not larger"),
            Skipped::Deadline => format!("`{name}` was not called: the deadline expired"),
        });
        let list: Vec<String> = failed.chain(skipped).collect();
        // The delay of the last route is not the delay of the call.
        format!(
            "no route answered: {}",
            list.join("; ").replace(", retry after ", ": retry after ")
        )
    }
}

/// Shows the errors of all routes, except the texts of errors that may quote a response.
impl fmt::Display for RoutesFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list(false))
    }
}

impl std::error::Error for RoutesFailed {}

/// Creates the error of a call from the errors of its routes, in the order of their failures.
pub(crate) fn error_of_call(
    mut errors: Vec<(String, ProviderError)>,
    skipped: Vec<SkippedRoute>,
) -> ProviderError {
    if let Some(position) = errors.iter().position(|(_, error)| is_of_engine(error)) {
        return errors.swap_remove(position).1;
    }
    let paused = skipped.iter().filter_map(|skipped| match skipped.reason {
        Skipped::Paused(left) => Some(left),
        _ => None,
    });
    let retryable = || errors.iter().map(|(_, error)| error).filter(|error| error.is_retryable());
    // A retry makes sense as soon as one of these routes may be called again.
    let delays = retryable().map(|error| error.retry_after().unwrap_or_default()).chain(paused);
    let delay = delays.min();
    // Set if a call may have used tokens. Then the returned error must not claim the opposite.
    let may_have_used = errors.iter().rfind(|(_, error)| !error.takes_no_tokens());
    let failed =
        errors.iter().map(|(name, error)| FailedRoute::new(name.clone(), ErrorRecord::from(error)));
    let routes = RoutesFailed { failed: failed.collect(), skipped };
    if let Some(delay) = delay {
        let unavailable = || ProviderError::ServiceUnavailable(routes.list(false));
        return match may_have_used {
            None if delay.is_zero() => unavailable(),
            None => unavailable().with_retry_after(delay),
            // The retryable variants with a text claim that the call used no tokens.
            Some(_) => ProviderError::Network(Box::new(routes)),
        };
    }
    let text = || routes.list(true);
    match may_have_used.or(errors.last()).map(|(_, error)| error) {
        Some(ProviderError::Authentication(_)) => ProviderError::Authentication(text()),
        Some(ProviderError::InvalidRequest(_)) => ProviderError::InvalidRequest(text()),
        Some(ProviderError::ContextWindowExceeded(_)) => {
            ProviderError::ContextWindowExceeded(routes.list(false))
        }
        Some(ProviderError::ModelNotFound(_)) => ProviderError::ModelNotFound(routes.list(false)),
        Some(ProviderError::InsufficientResources(_)) => {
            ProviderError::InsufficientResources(routes.list(false))
        }
        Some(ProviderError::StreamError(_)) => ProviderError::StreamError(text()),
        _ => ProviderError::Other(Box::new(routes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn text() -> String {
        "x".to_owned()
    }

    /// Every variant, with `true` if another route is called, and `true` if the route cools off.
    fn all() -> [(ProviderError, bool, bool); 12] {
        use ProviderError as E;
        [
            (E::Network("reset".into()), true, true),
            (E::RateLimit { retry_after: None }, true, true),
            (E::ModelLoading(text()), true, true),
            (E::Timeout(SECOND), true, true),
            (E::ServiceUnavailable(text()), true, true),
            (E::Authentication(text()), false, true),
            (E::InvalidRequest(text()), false, false),
            (E::ContextWindowExceeded(text()), true, false),
            (E::ModelNotFound(text()), true, false),
            (E::InsufficientResources(text()), true, true),
            (E::StreamError(text()), true, true),
            (E::Other("odd".into()), false, false),
        ]
    }

    #[test]
    fn kinds_of_errors_decide_about_fallback_and_cooling() {
        for (error, is_fallback, cools) in all() {
            assert_eq!(falls_back(&error, false), is_fallback, "{error:?}");
            assert_eq!(is_outage(&error), cools, "{error:?}");
        }
        assert!(falls_back(&ProviderError::Authentication(text()), true));
    }

    fn call_error(
        errors: impl IntoIterator<Item = ProviderError>,
        skipped: impl IntoIterator<Item = Skipped>,
    ) -> ProviderError {
        let errors = errors.into_iter().enumerate().map(|(at, error)| (format!("r{at}"), error));
        let skipped =
            skipped.into_iter().map(|reason| SkippedRoute { name: "s".to_owned(), reason });
        error_of_call(errors.collect(), skipped.collect())
    }

    #[test]
    fn error_of_one_route_keeps_whether_it_is_retryable_and_takes_tokens() {
        for (error, ..) in all() {
            let before = (error.is_retryable(), error.takes_no_tokens());
            let is_other = matches!(error, ProviderError::Other(_));
            let after = call_error([error], []);
            assert_eq!((after.is_retryable(), after.takes_no_tokens()), before, "{after:?}");
            assert!(after.to_string().contains("no route answered: `r0`"), "{after}");
            if !after.is_retryable() {
                assert_eq!(is_other, matches!(after, ProviderError::Other(_)));
            }
        }
    }

    #[test]
    fn error_is_retryable_if_any_is_and_lists_all_routes() {
        let busy = || ProviderError::ServiceUnavailable("529 busy".into());
        let error = call_error([busy(), ProviderError::ModelNotFound("gone".into())], []);
        assert_eq!(
            error.to_string(),
            "service unavailable: no route answered: `r0`: service unavailable: 529 busy; \
             `r1`: model not found: gone"
        );
        let error = call_error([ProviderError::Timeout(SECOND), busy()], [Skipped::Window]);
        assert!(matches!(error, ProviderError::Network(_)) && !error.takes_no_tokens());
        let text = error.to_string();
        assert!(text.contains("`r0`: timeout after 1s; `r1`") && text.contains("`s`"), "{text}");
        let failed = std::error::Error::source(&error).unwrap();
        let failed = failed.downcast_ref::<RoutesFailed>().unwrap().failed();
        assert_eq!(failed[0].error.kind, "Timeout");
    }

    #[test]
    fn error_does_not_claim_that_no_tokens_were_used_if_any_call_may_have_used_some() {
        let cut = || ProviderError::StreamError("cut".into());
        for last in all().into_iter().map(|(error, ..)| error).filter(|it| !it.is_retryable()) {
            let error = call_error([cut(), last], []);
            assert!(!error.takes_no_tokens() && !error.is_retryable(), "{error:?}");
        }
        let gone = ProviderError::ModelNotFound("gone".into());
        assert!(matches!(call_error([cut(), gone], []), ProviderError::StreamError(_)));
        let error = call_error([cut()], [Skipped::Paused(SECOND)]);
        assert!(!error.takes_no_tokens() && error.is_retryable(), "{error:?}");
    }

    #[test]
    fn delay_is_the_shortest_until_a_route_may_be_called() {
        let limited = |seconds| ProviderError::RateLimit { retry_after: Some(SECOND * seconds) };
        let error = call_error([limited(9), limited(4)], [Skipped::Paused(SECOND * 7)]);
        assert_eq!(error.retry_after(), Some(SECOND * 4));
        let error = call_error([], [Skipped::Paused(SECOND * 7)]);
        assert_eq!((error.retry_after(), error.is_retryable()), (Some(SECOND * 7), true));
        let busy = ProviderError::ServiceUnavailable(text());
        assert_eq!(call_error([limited(9), busy], []).retry_after(), None);
    }

    #[test]
    fn delay_of_the_last_route_is_not_the_delay_of_the_call() {
        let limited = |seconds| ProviderError::RateLimit { retry_after: Some(SECOND * seconds) };
        let busy = || ProviderError::ServiceUnavailable(text());
        let error = call_error([busy(), limited(60)], []);
        assert_eq!((error.retry_after(), error.is_retryable()), (None, true));
        // The text of an error without a delay may look like a delay.
        let refused = ProviderError::InvalidRequest("quota, retry after 60s".into());
        assert_eq!(call_error([busy(), refused], []).retry_after(), None);
        let error = call_error([limited(4), busy().with_retry_after(SECOND * 9)], []);
        assert_eq!(error.retry_after(), Some(SECOND * 4));
        assert_eq!(
            error.to_string(),
            "service unavailable: no route answered: `r0`: rate limited: retry after 4s; `r1`: \
             service unavailable: x: retry after 9s, retry after 4s"
        );
    }

    #[test]
    fn error_of_an_engine_is_returned_unchanged() {
        let busy = ProviderError::ServiceUnavailable(text());
        let engine = ProviderError::Other(Box::new(DurableError::Cancelled));
        let error = call_error([busy, engine], []);
        assert!(matches!(error, ProviderError::Other(source) if source.is::<DurableError>()));
    }

    #[test]
    fn quotes_of_responses_appear_only_in_errors_that_may_quote() {
        let odd = || ProviderError::StreamError("secret".into());
        let busy = ProviderError::ServiceUnavailable(text());
        assert!(!call_error([odd(), busy], []).to_string().contains("secret"));
        assert!(call_error([odd()], []).to_string().contains("secret"));
    }
}
