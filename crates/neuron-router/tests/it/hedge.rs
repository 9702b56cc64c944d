//! Tests of calls that are sent to a second route because the first is slow.

use neuron_model::{CompletionRequest, DurableError, Provider, ProviderError};
use neuron_router::{Route, Router};
use neuron_testing::Reply;
use tokio::time::Instant;

use crate::support::{
    answering, ask, ask_streamed, busy, calls, events, limited, request, route_of, routes, script,
    seconds, too_long,
};

fn refused() -> ProviderError {
    ProviderError::InvalidRequest("no".into())
}

#[tokio::test(start_paused = true)]
async fn second_route_is_called_after_the_time_and_the_first_answer_wins() {
    for is_streamed in [true, false] {
        let providers = [script([Reply::text("a").delay(seconds(60))]), answering("b")];
        let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
        let start = Instant::now();
        let response = match is_streamed {
            true => ask_streamed(&router).await.unwrap(),
            false => ask(&router).await.unwrap(),
        };
        assert_eq!((response.message.text(), start.elapsed()), ("b".into(), seconds(3)));
        let route = route_of(&response);
        assert_eq!((route.cancelled, route.failed.len()), (vec!["a".to_owned()], 0));
        // The other call is cancelled.
        assert_eq!(providers[0].open_streams(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn first_route_wins_if_it_answers_before_the_second() {
    let providers = [
        script([Reply::text("a").delay(seconds(4))]),
        script([Reply::text("b").delay(seconds(9))]),
    ];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    let response = ask_streamed(&router).await.unwrap();
    assert_eq!(response.message.text(), "a");
    assert_eq!(route_of(&response).cancelled, ["b"]);
    assert_eq!(providers[1].open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn fast_route_is_called_alone() {
    let providers = [script([Reply::text("a").delay(seconds(2))]), answering("b")];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    assert_eq!(ask_streamed(&router).await.unwrap().message.text(), "a");
    assert_eq!(calls(&providers), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn slow_stream_is_not_hedged_after_its_first_content() {
    let slow = Reply::text("0123456789").chunk_chars(1).event_delay(seconds(9));
    let providers = [script([slow]), answering("b")];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    assert_eq!(ask_streamed(&router).await.unwrap().message.text(), "0123456789");
    assert_eq!(calls(&providers), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn at_most_two_routes_are_called_at_the_same_time() {
    let providers = [
        script([Reply::error(busy()).delay(seconds(10))]),
        script([Reply::hang()]),
        script([Reply::text("c")]),
        answering("d"),
    ];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    let start = Instant::now();
    let response = ask_streamed(&router).await.unwrap();
    // The first route fails after 10 seconds. 3 seconds later, the third is called beside the second.
    assert_eq!((response.message.text(), start.elapsed()), ("c".into(), seconds(13)));
    assert_eq!(calls(&providers), [1, 1, 1, 0]);
    let route = route_of(&response);
    assert_eq!((&*route.failed[0].name, &*route.cancelled[0]), ("a", "b"));
}

#[tokio::test(start_paused = true)]
async fn paused_and_cooling_routes_are_not_called_beside_another() {
    for error in [busy(), limited(600)] {
        let providers = [
            script([Reply::error(error), Reply::text("a")]),
            script([Reply::text("b"), Reply::text("b").delay(seconds(9))]),
        ];
        let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
        for _ in 0..2 {
            assert_eq!(ask(&router).await.unwrap().message.text(), "b");
        }
        assert_eq!(calls(&providers), [1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn cooling_route_is_not_called_beside_another_after_an_exceeded_window() {
    let providers = [
        script([Reply::text("a"), Reply::error(too_long())]),
        script([Reply::error(busy())]),
        script([Reply::text("c").delay(seconds(9))]),
    ];
    let windows = [100, 200, 200];
    let builder = ["a", "b", "c"].into_iter().zip(&providers).zip(windows).fold(
        Router::builder(),
        |builder, ((name, provider), window)| {
            builder.route(Route::new(name, provider.clone()).context_window(window))
        },
    );
    let router = builder.hedge_after(seconds(3)).build().unwrap();
    // The model names the second route, which fails and cools off.
    let named = CompletionRequest { model: "b".into(), ..request() };
    assert_eq!(router.complete_ref(named.view()).await.unwrap().message.text(), "a");
    assert_eq!(ask(&router).await.unwrap().message.text(), "c");
    assert_eq!(calls(&providers), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn route_is_called_beside_another_when_its_delay_ends() {
    for hedge_after in [0, 3, 30] {
        let providers = [
            script([Reply::error(busy()), Reply::error(busy()).delay(seconds(20))]),
            script([Reply::error(limited(10)), Reply::text("b")]),
        ];
        let builder = routes(&providers).cooling_off(seconds(0));
        let router = builder.hedge_after(seconds(hedge_after)).build().unwrap();
        assert!(ask(&router).await.is_err());
        let start = Instant::now();
        assert_eq!(ask(&router).await.unwrap().message.text(), "b");
        // With the longest time, the first route fails before.
        let expected = if hedge_after == 30 { 20 } else { 10 };
        assert_eq!(start.elapsed(), seconds(expected));
        assert_eq!(calls(&providers), [2, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn zero_time_calls_two_routes_at_once() {
    let providers = [script([Reply::hang()]), answering("b")];
    let router = routes(&providers).hedge_after(seconds(0)).build().unwrap();
    let seen = events(&router).await.unwrap();
    assert!(!seen.is_empty());
    assert_eq!(calls(&providers), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn error_of_the_second_route_does_not_end_the_call_of_the_first() {
    let errors: [fn() -> ProviderError; 3] = [
        refused,
        || ProviderError::Authentication("wrong key".into()),
        || ProviderError::Other("odd".into()),
    ];
    for error in errors {
        for is_streamed in [true, false] {
            let providers = [
                script([Reply::text("a").delay(seconds(20))]),
                script([Reply::error(error())]),
                answering("c"),
            ];
            let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
            let start = Instant::now();
            let response = match is_streamed {
                true => ask_streamed(&router).await.unwrap(),
                false => ask(&router).await.unwrap(),
            };
            assert_eq!((response.message.text(), start.elapsed()), ("a".into(), seconds(20)));
            assert_eq!(route_of(&response).failed[0].name, "b");
            // After this error no further route is called.
            assert_eq!(calls(&providers), [1, 1, 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_route_is_called_after_an_error_of_the_request_even_if_the_open_call_fails_too() {
    let providers = [
        script([Reply::error(busy()).delay(seconds(20))]),
        script([Reply::error(refused())]),
        answering("c"),
    ];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    let error = ask(&router).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "service unavailable: no route answered: `b`: invalid request: no; `a`: service \
         unavailable: 529 busy"
    );
    assert_eq!(calls(&providers), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn error_does_not_claim_that_an_open_call_used_no_tokens() {
    let providers = [script([Reply::hang()]), script([Reply::error(refused())])];
    let router = routes(&providers).hedge_after(seconds(3)).deadline(seconds(10)).build().unwrap();
    let error = ask(&router).await.unwrap_err();
    assert!(error.is_retryable() && !error.takes_no_tokens(), "{error}");
    assert!(error.to_string().contains("`a`: timeout after 10s"), "{error}");
    assert_eq!(providers[0].open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn error_of_an_engine_ends_the_call_at_once() {
    let engine = ProviderError::Other(Box::new(DurableError::Cancelled));
    let providers = [script([Reply::hang()]), script([Reply::error(engine)])];
    let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
    let error = ask(&router).await.unwrap_err();
    assert!(matches!(error, ProviderError::Other(source) if source.is::<DurableError>()));
    assert_eq!(providers[0].open_streams(), 0);
}
