//! Tests of the deadline of a whole call.

use neuron_model::ProviderError;
use neuron_testing::Reply;
use tokio::time::Instant;

use crate::support::{answering, ask, ask_streamed, busy, calls, events, routes, script, seconds};

#[tokio::test(start_paused = true)]
async fn deadline_ends_the_whole_chain_and_the_error_lists_all_routes() {
    let providers = [
        script([Reply::error(busy()).delay(seconds(6))]),
        script([Reply::text("late").delay(seconds(6))]),
        answering("c"),
    ];
    let router = routes(&providers).deadline(seconds(10)).build().unwrap();
    let start = Instant::now();
    let error = ask(&router).await.unwrap_err();
    assert_eq!(start.elapsed(), seconds(10));
    assert_eq!(
        error.to_string(),
        "network error: no route answered: `a`: service unavailable: 529 busy; `b`: timeout after \
         4s; `c` was not called: the deadline expired"
    );
    // The second route may have used tokens.
    assert!(error.is_retryable() && !error.takes_no_tokens());
    assert_eq!(calls(&providers), [1, 1, 0]);
    assert_eq!(providers[1].open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn deadline_applies_to_a_stream_until_its_first_content() {
    let slow = || Reply::text("0123456789").chunk_chars(1).event_delay(seconds(2));
    let providers = [script([slow(), slow().delay(seconds(9))])];
    let router = routes(&providers).deadline(seconds(5)).build().unwrap();
    assert_eq!(ask_streamed(&router).await.unwrap().message.text(), "0123456789");
    assert!(matches!(events(&router).await, Err(ProviderError::Network(_))));
}

#[tokio::test(start_paused = true)]
async fn route_that_hangs_until_the_deadline_cools_off() {
    let providers = [script([Reply::hang()]), answering("b")];
    let router = routes(&providers).deadline(seconds(5)).build().unwrap();
    assert!(ask(&router).await.is_err());
    assert_eq!(ask(&router).await.unwrap().message.text(), "b");
}

#[tokio::test(start_paused = true)]
async fn route_that_was_called_shortly_before_the_deadline_does_not_cool_off() {
    for (delay, is_paused) in [(5, true), (6, false)] {
        let providers = [
            script([Reply::error(busy()).delay(seconds(delay)), Reply::text("a")]),
            script([Reply::hang(), Reply::text("b")]),
        ];
        let router = routes(&providers).deadline(seconds(10)).build().unwrap();
        assert!(ask(&router).await.is_err());
        // If both routes cool off, the route that recovers first is called.
        let expected = if is_paused { "a" } else { "b" };
        assert_eq!(ask(&router).await.unwrap().message.text(), expected);
    }
}
