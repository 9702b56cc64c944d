//! Tests of the pauses of routes after failures.

use neuron_model::{Provider, ProviderError};
use neuron_testing::{Reply, ScriptedProvider};
use tokio::time::advance;

use crate::support::{
    answering, ask, busy, calls, limited, request, router, routes, script, seconds, text,
};

#[tokio::test(start_paused = true)]
async fn route_is_not_called_during_the_delay_that_its_vendor_requested() {
    let providers = [script([Reply::error(limited(60)), Reply::text("a")]), answering("b")];
    let router = router(&providers);
    for _ in 0..3 {
        assert_eq!(text(&router).await.unwrap(), "b");
    }
    assert_eq!(calls(&providers), [1, 3]);
    advance(seconds(60)).await;
    assert_eq!(text(&router).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn route_cools_off_after_an_outage() {
    let providers = [script([Reply::error(busy()), Reply::text("a")]), answering("b")];
    let router = router(&providers);
    assert_eq!(text(&router).await.unwrap(), "b");
    advance(seconds(14)).await;
    assert_eq!(text(&router).await.unwrap(), "b");
    assert_eq!(calls(&providers), [1, 2]);
    advance(seconds(1)).await;
    assert_eq!(text(&router).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn cooling_off_time_is_a_setting() {
    let providers = [script([Reply::error(busy()), Reply::text("a")]), answering("b")];
    let router = routes(&providers).cooling_off(seconds(0)).build().unwrap();
    assert_eq!(text(&router).await.unwrap(), "b");
    assert_eq!(text(&router).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn cooling_route_is_called_if_all_others_fail_and_its_answer_ends_the_pause() {
    let providers = [
        script([Reply::error(busy()), Reply::text("a1"), Reply::text("a2")]),
        script([Reply::text("b"), Reply::error(limited(60))]),
    ];
    let router = router(&providers);
    assert_eq!(text(&router).await.unwrap(), "b");
    assert_eq!(text(&router).await.unwrap(), "a1");
    assert_eq!(text(&router).await.unwrap(), "a2");
    assert_eq!(calls(&providers), [3, 2]);
}

#[tokio::test(start_paused = true)]
async fn routes_that_cool_off_are_called_in_the_order_in_which_they_recover() {
    let providers = [
        script([Reply::error(busy()), Reply::error(busy())]),
        script([Reply::error(busy()), Reply::text("b")]),
    ];
    let router = router(&providers);
    assert!(ask(&router).await.is_err());
    // The first route cools off for longer, because it failed again.
    let again = router.complete_ref(request().view()).await;
    assert_eq!(again.unwrap().message.text(), "b");
    assert_eq!(calls(&providers), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn call_fails_at_once_with_the_shortest_delay_while_all_routes_are_paused() {
    let providers = [
        script([Reply::error(limited(60))]),
        script([Reply::error(busy().with_retry_after(seconds(20)))]),
    ];
    let router = router(&providers);
    let error = ask(&router).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(seconds(20)));
    advance(seconds(5)).await;
    let error = ask(&router).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "service unavailable: no route answered: `a` was not called: retry after 55s; `b` was not \
         called: retry after 15s, retry after 15s"
    );
    assert_eq!((error.retry_after(), error.is_retryable()), (Some(seconds(15)), true));
    assert_eq!(calls(&providers), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn call_may_be_repeated_at_once_if_only_the_last_route_requested_a_delay() {
    let providers = [script([Reply::error(busy())]), script([Reply::error(limited(60))])];
    let error = ask(&router(&providers)).await.unwrap_err();
    assert_eq!((error.retry_after(), error.is_retryable()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn route_whose_delay_ends_during_the_call_is_called() {
    let providers = [
        script([Reply::error(limited(10)), Reply::text("a")]),
        script([Reply::text("b"), Reply::error(busy()).delay(seconds(20))]),
    ];
    let router = router(&providers);
    assert_eq!(text(&router).await.unwrap(), "b");
    assert_eq!(text(&router).await.unwrap(), "a");
    assert_eq!(calls(&providers), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn delay_of_another_route_does_not_hide_an_error_of_the_request() {
    let refused = || ProviderError::InvalidRequest("no".into());
    let providers =
        [script([Reply::error(limited(60))]), script([Reply::text("b"), Reply::error(refused())])];
    let router = router(&providers);
    assert_eq!(text(&router).await.unwrap(), "b");
    let error = ask(&router).await.unwrap_err();
    assert!(matches!(error, ProviderError::InvalidRequest(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_router_share_the_pauses() {
    let providers = [script([Reply::error(limited(60))]), answering("b")];
    let router = router(&providers);
    let clone = router.clone();
    assert_eq!(text(&router).await.unwrap(), "b");
    assert_eq!(text(&clone).await.unwrap(), "b");
    assert_eq!(calls(&providers), [1, 2]);
}

#[test]
fn router_works_without_a_tokio_runtime() {
    let providers = [script([Reply::error(busy())]), ScriptedProvider::new(["b"])];
    let router = routes(&providers).deadline(seconds(1)).hedge_after(seconds(1)).build().unwrap();
    let request = request();
    let call = router.complete_ref(request.view());
    let response = futures_util::FutureExt::now_or_never(call).unwrap().unwrap();
    assert_eq!(response.message.text(), "b");
}

#[tokio::test(start_paused = true)]
async fn wrong_key_does_not_send_the_next_call_to_another_route() {
    let wrong = || ProviderError::Authentication("wrong key".into());
    for is_allowed in [false, true] {
        let providers = [script([Reply::error(wrong()), Reply::error(wrong())]), answering("b")];
        let builder = routes(&providers);
        let router = match is_allowed {
            true => builder.fall_back_on_authentication().build().unwrap(),
            false => builder.build().unwrap(),
        };
        for _ in 0..2 {
            assert_eq!(ask(&router).await.is_ok(), is_allowed);
        }
        let expected = if is_allowed { [1, 2] } else { [2, 0] };
        assert_eq!(calls(&providers), expected);
    }
}
