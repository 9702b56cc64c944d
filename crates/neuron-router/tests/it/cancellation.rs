//! Tests of calls and streams that are dropped.

use neuron_model::Provider;
use neuron_testing::Reply;
use tokio::time::timeout;

use crate::support::{ask, busy, calls, request, router, routes, script, seconds, text};

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_all_routes_and_pauses_none() {
    for is_streamed in [false, true] {
        let providers = [script([Reply::hang(), Reply::text("a")]), script([Reply::hang()])];
        let router = routes(&providers).hedge_after(seconds(3)).build().unwrap();
        let open = || providers.iter().map(|provider| provider.open_streams()).sum::<usize>();
        let request = request();
        let mut call = Box::pin(async {
            match is_streamed {
                true => router.complete_stream_ref(request.view()).await.is_ok(),
                false => router.complete_ref(request.view()).await.is_ok(),
            }
        });
        assert!(timeout(seconds(10), &mut call).await.is_err());
        assert_eq!((open(), calls(&providers)), (2, vec![1, 1]));
        drop(call);
        assert_eq!(open(), 0);
        assert_eq!(text(&router).await.unwrap(), "a");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_start_of_a_stream_cancels_its_route() {
    let providers = [script([Reply::text("x").hang_after(0)])];
    let router = router(&providers);
    let request = request();
    let mut call = Box::pin(router.complete_stream_ref(request.view()));
    assert!(timeout(seconds(10), &mut call).await.is_err());
    assert_eq!(providers[0].open_streams(), 1);
    drop(call);
    assert_eq!(providers[0].open_streams(), 0);
}

#[tokio::test]
async fn dropped_stream_cancels_its_route_and_does_not_pause_it() {
    let slow = Reply::text("one two three").chunk_chars(4).hang_after(2);
    let providers = [script([slow, Reply::text("a")]), script([Reply::text("b")])];
    let router = router(&providers);
    let mut stream = router.complete_stream_ref(request().view()).await.unwrap().receiver;
    assert!(stream.recv().await.is_some());
    assert_eq!(providers[0].open_streams(), 1);
    drop(stream);
    assert_eq!(providers[0].open_streams(), 0);
    assert_eq!(text(&router).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn call_that_was_dropped_between_two_routes_leaves_the_router_usable() {
    let providers = [
        script([Reply::error(busy()), Reply::text("a")]),
        script([Reply::hang(), Reply::text("b")]),
    ];
    let router = router(&providers);
    assert!(timeout(seconds(5), ask(&router)).await.is_err());
    assert_eq!(text(&router).await.unwrap(), "b");
}
