//! A property test of random routes, settings and calls.
//!
//! Every call ends with one answer or with one error that names all routes. No route is called twice in a call, and a
//! stream that broke after its first content is not repeated.

use neuron_model::{AnswerRoute, CompletionRequest, Message, Provider, ProviderError, StreamEvent};
use neuron_router::{Order, Route, Router};
use neuron_testing::{Reply, ScriptedProvider};
use proptest::prelude::*;

use crate::support::{request, seconds};

/// The behaviour of a route in a call.
#[derive(Debug, Clone)]
struct Act {
    /// Index of an error in [`error`], or `None` for an answer.
    error: Option<usize>,
    /// Number of events before the stream breaks. The reply has 5 deltas.
    breaks_after: Option<usize>,
    delay: u64,
}

fn error(index: usize) -> ProviderError {
    use ProviderError as E;
    match index {
        0 => E::Network("reset".into()),
        1 => E::RateLimit { retry_after: None },
        2 => E::RateLimit { retry_after: Some(seconds(20)) },
        3 => E::Timeout(seconds(9)),
        4 => E::ServiceUnavailable("busy".into()),
        5 => E::InsufficientResources("quota".into()),
        6 => E::ContextWindowExceeded("too long".into()),
        7 => E::ModelNotFound("gone".into()),
        8 => E::StreamError("cut".into()),
        9 => E::Authentication("wrong key".into()),
        10 => E::InvalidRequest("no".into()),
        _ => E::Other("odd".into()),
    }
}

/// The text of a route's answers, which names the route. Its stream has 5 deltas.
fn answer(route: usize) -> String {
    format!("{route}").repeat(5)
}

impl Act {
    fn reply(&self, route: usize) -> Reply {
        let reply = match self.error {
            Some(index) => Reply::error(error(index)),
            None => Reply::text(answer(route)).chunk_chars(1),
        };
        match self.breaks_after {
            Some(events) => reply.fail_after(events, ProviderError::StreamError("cut".into())),
            None => reply,
        }
        .delay(seconds(self.delay))
    }
}

#[derive(Debug, Clone)]
struct Case {
    /// The acts of each route, one for each call.
    routes: Vec<Vec<Act>>,
    windows: Vec<Option<usize>>,
    order: usize,
    hedge_after: Option<u64>,
    deadline: Option<u64>,
    cooling_off: u64,
    allows_authentication: bool,
    seed: u64,
    /// For each call, `true` if it is streamed, and the model of the request.
    calls: Vec<(bool, Option<usize>)>,
}

fn act() -> impl Strategy<Value = Act> {
    let error = prop_oneof![3 => Just(None), 4 => (0..12_usize).prop_map(Some)];
    let breaks = prop_oneof![3 => Just(None), 1 => (0..6_usize).prop_map(Some)];
    (error, breaks, 0..8_u64).prop_map(|(error, breaks_after, delay)| Act {
        error,
        breaks_after,
        delay,
    })
}

fn case() -> impl Strategy<Value = Case> {
    (1..6_usize, 1..6_usize).prop_flat_map(|(routes, calls)| {
        (
            prop::collection::vec(prop::collection::vec(act(), calls), routes),
            prop::collection::vec(prop::option::of(1..4_usize), routes),
            (0..4_usize, prop::option::of(0..6_u64), prop::option::of(1..20_u64)),
            (0..2_u64, any::<bool>(), any::<u64>()),
            prop::collection::vec((any::<bool>(), prop::option::of(0..routes)), calls),
        )
            .prop_map(|(routes, windows, limits, settings, calls)| Case {
                routes,
                windows,
                order: limits.0,
                hedge_after: limits.1,
                deadline: limits.2,
                cooling_off: settings.0 * 15,
                allows_authentication: settings.1,
                seed: settings.2,
                calls,
            })
    })
}

/// The end of a call. `seen` is the text that the caller has received.
struct End {
    seen: String,
    outcome: Result<AnswerRoute, ProviderError>,
    /// Set if the error was an event of the stream.
    is_broken: bool,
}

async fn call(router: &Router, is_streamed: bool, model: &str) -> End {
    let request = CompletionRequest { model: model.into(), ..request() };
    let route = |message: &Message| message.metadata().unwrap().route.unwrap();
    if !is_streamed {
        let outcome = router.complete_ref(request.view()).await;
        let seen = outcome.as_ref().map(|answer| answer.message.text()).unwrap_or_default();
        return End { seen, outcome: outcome.map(|it| route(&it.message)), is_broken: false };
    }
    let mut events = match router.complete_stream_ref(request.view()).await {
        Ok(handle) => handle.receiver,
        Err(error) => {
            return End { seen: String::new(), outcome: Err(error), is_broken: false };
        }
    };
    let (mut seen, mut outcome) = (String::new(), None);
    while let Some(event) = events.recv().await {
        assert!(outcome.is_none(), "an event after the end");
        match event {
            StreamEvent::TextDelta(text) => seen += &text,
            StreamEvent::ResponseComplete(answer) => outcome = Some(Ok(route(&answer.message))),
            StreamEvent::Error(error) => outcome = Some(Err(error.into())),
            _ => {}
        }
    }
    End { seen, outcome: outcome.expect("no end"), is_broken: true }
}

async fn check(case: &Case) {
    let mut builder = Router::builder()
        .order([Order::Listed, Order::Price, Order::Latency, Order::Weighted][case.order].clone())
        .cooling_off(seconds(case.cooling_off))
        .sticky(4)
        .seed(case.seed);
    if let Some(time) = case.hedge_after {
        builder = builder.hedge_after(seconds(time));
    }
    if let Some(limit) = case.deadline {
        builder = builder.deadline(seconds(limit));
    }
    if case.allows_authentication {
        builder = builder.fall_back_on_authentication();
    }
    let mut providers = Vec::new();
    for (index, (acts, window)) in case.routes.iter().zip(&case.windows).enumerate() {
        let provider = ScriptedProvider::new(acts.iter().map(|act| act.reply(index)));
        let route = Route::new(index.to_string(), provider.clone()).price((index % 2) as f64);
        builder = builder.route(match window {
            Some(tokens) => route.context_window(*tokens),
            None => route,
        });
        providers.push(provider);
    }
    let router = builder.build().unwrap();
    for (is_streamed, model) in &case.calls {
        let before: Vec<usize> = providers.iter().map(ScriptedProvider::calls).collect();
        let model = model.map(|index| index.to_string()).unwrap_or_default();
        let End { seen, outcome, is_broken } = call(&router, *is_streamed, &model).await;
        let called: Vec<usize> = providers.iter().map(ScriptedProvider::calls).collect();
        // The acts of the called routes.
        let mut acts = Vec::new();
        let called: Vec<String> = (0..providers.len())
            .filter(|&index| {
                let calls = called[index] - before[index];
                assert!(calls <= 1, "route {index} was called {calls} times");
                acts.extend((calls == 1).then(|| &case.routes[index][before[index]]));
                calls == 1
            })
            .map(|index| index.to_string())
            .collect();
        assert!(providers.iter().all(|provider| provider.open_streams() == 0), "a call is open");
        match outcome {
            Ok(route) => {
                assert_eq!(seen, answer(route.name.parse().unwrap()));
                let failed = route.failed.iter().map(|failed| failed.name.clone());
                let mut named: Vec<String> =
                    failed.chain(route.cancelled).chain([route.name]).collect();
                named.sort();
                assert_eq!(named, called);
            }
            Err(error) if *is_streamed && is_broken => {
                // The text of one route, and never the text of a second.
                let first = seen.chars().next().expect("an error before any content");
                assert!(answer(first.to_digit(10).unwrap() as usize).starts_with(&seen));
                assert!(matches!(error, ProviderError::StreamError(_)));
            }
            Err(failed) => {
                assert_eq!(seen, "");
                let text = failed.to_string();
                for name in &called {
                    assert!(text.contains(&format!("`{name}`")), "{name} is missing: {text}");
                }
                let is_paused = text.contains("was not called: retry after");
                assert!(!called.is_empty() || is_paused, "{text}");
                let fails = |act: &&Act| act.error.is_some() || act.breaks_after.is_some();
                assert!(case.deadline.is_some() || acts.iter().all(fails), "an answer was lost");
                let refuses = |act: &&Act| act.error.is_some_and(|at| error(at).takes_no_tokens());
                assert!(!failed.takes_no_tokens() || acts.iter().all(refuses), "{failed:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn call_ends_with_one_answer_or_an_error_that_names_all_routes(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check(&case));
    }
}
