//! Tests of conversations that stay with the route that answered them last, and of the orders by latency and weight.

use neuron_loop::{Agent, Conversation};
use neuron_model::{CompletionRequest, Message, Provider, ProviderError, RequestRef};
use neuron_router::{Order, Route, Router};
use neuron_testing::{Reply, ScriptedProvider};
use tokio::time::{Instant, advance};

use crate::support::{
    answering, ask_streamed, busy, calls, request, route_of, routes, script, seconds,
};

tokio::task_local! {
    static SESSION: u64;
}

/// Calls a router with the first message of a conversation, and returns the name of the route that answered.
async fn ask_in(router: &Router, first: &str) -> String {
    let request = CompletionRequest { messages: vec![Message::user(first)], ..request() };
    let response = router.complete_ref(request.view()).await.unwrap();
    route_of(&response).name
}

#[tokio::test(start_paused = true)]
async fn conversation_of_an_agent_stays_with_its_route_in_later_runs() {
    let replies = [Reply::error(busy()), Reply::text("a"), Reply::text("a")];
    let providers = [script(replies), answering("b")];
    let router = routes(&providers).sticky(10).build().unwrap();
    let agent = Agent::builder(router).system_prompt("Be brief.").build();
    let mut first = Conversation::new();
    assert_eq!(agent.run(&mut first, "Hello").await.unwrap().response, "b");
    advance(seconds(60)).await;
    assert_eq!(agent.run(&mut first, "And now?").await.unwrap().response, "b");
    // The route is the same after the conversation was stored and loaded.
    let stored = serde_json::to_string(&first).unwrap();
    let mut loaded: Conversation = serde_json::from_str(&stored).unwrap();
    assert_eq!(agent.run(&mut loaded, "And later?").await.unwrap().response, "b");
    let mut second = Conversation::new();
    assert_eq!(agent.run(&mut second, "Good morning").await.unwrap().response, "a");
    assert_eq!(calls(&providers), [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn conversation_stays_with_its_route_after_the_other_has_recovered() {
    let providers = [script([Reply::error(busy()), Reply::text("a")]), answering("b")];
    let router = routes(&providers).sticky(10).build().unwrap();
    assert_eq!(ask_in(&router, "first").await, "b");
    advance(seconds(60)).await;
    assert_eq!(ask_in(&router, "first").await, "b");
    assert_eq!(ask_in(&router, "second").await, "a");
}

#[tokio::test(start_paused = true)]
async fn conversation_moves_if_its_route_fails() {
    let providers =
        [script([Reply::text("a"), Reply::error(busy()), Reply::text("a")]), answering("b")];
    let router = routes(&providers).sticky(10).build().unwrap();
    for expected in ["a", "b", "b"] {
        assert_eq!(ask_in(&router, "first").await, expected);
    }
}

#[tokio::test]
async fn random_order_is_sticky_within_a_conversation_and_repeatable_by_seed() {
    let run = || async {
        let providers = [answering("a"), answering("b"), answering("c")];
        let router = routes(&providers).order(Order::Weighted).seed(7).sticky(100).build().unwrap();
        let mut names = Vec::new();
        for number in 0..30 {
            let first = format!("conversation {number}");
            let name = ask_in(&router, &first).await;
            for _ in 0..3 {
                assert_eq!(ask_in(&router, &first).await, name);
            }
            names.push(name);
        }
        names
    };
    let names = run().await;
    assert_eq!(names, run().await);
    for name in ["a", "b", "c"] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn key_of_the_user_selects_the_conversation() {
    let providers = [script([Reply::error(busy()), Reply::text("a")]), answering("b")];
    let session = |_: &RequestRef<'_>| SESSION.try_with(|number| *number).ok();
    let router = routes(&providers).sticky_by(10, session).build().unwrap();
    let agent = Agent::builder(router).build();
    let ask = async || agent.run(&mut Conversation::new(), "Hello").await.unwrap().response;
    assert_eq!(SESSION.scope(1, ask()).await, "b");
    advance(seconds(60)).await;
    assert_eq!(SESSION.scope(1, ask()).await, "b");
    assert_eq!(ask().await, "a");
}

#[tokio::test(start_paused = true)]
async fn order_by_latency_prefers_the_faster_route_once_all_are_measured() {
    let reply = |delay| (0..9).map(move |_| Reply::text("x").delay(seconds(delay)));
    let providers = [ScriptedProvider::new(reply(5)), ScriptedProvider::new(reply(2))];
    let router = routes(&providers).order(Order::Latency).build().unwrap();
    for _ in 0..5 {
        ask_streamed(&router).await.unwrap();
    }
    assert_eq!(calls(&providers), [1, 4]);
    // Measurements expire, so the slow route is measured again.
    advance(seconds(600)).await;
    ask_streamed(&router).await.unwrap();
    assert_eq!(calls(&providers), [2, 4]);
}

#[tokio::test(start_paused = true)]
async fn order_by_latency_calls_a_retired_model_once_in_ten_minutes() {
    let gone = || Reply::error(ProviderError::ModelNotFound("retired".into()));
    let retired = [Reply::text("old").delay(seconds(1)), gone(), gone()];
    let slow = (0..99).map(|_| Reply::text("new").delay(seconds(2)));
    let providers = [script([gone(), gone()]), script(retired), ScriptedProvider::new(slow)];
    let router = routes(&providers).order(Order::Latency).build().unwrap();
    for _ in 0..50 {
        ask_streamed(&router).await.unwrap();
    }
    // The first model is retired already. The second answers once, and is then retired.
    assert_eq!(calls(&providers), [1, 2, 49]);
    advance(seconds(600)).await;
    ask_streamed(&router).await.unwrap();
    assert_eq!(calls(&providers), [2, 3, 50]);
}

#[tokio::test(start_paused = true)]
async fn unknown_model_of_a_request_does_not_change_the_order_by_latency() {
    let unknown = Reply::error(ProviderError::ModelNotFound("no such model".into()));
    let fast = [Reply::text("a").delay(seconds(1)), unknown, Reply::text("a")];
    let providers =
        [script(fast), ScriptedProvider::new((0..9).map(|_| Reply::text("b").delay(seconds(2))))];
    let router = routes(&providers).order(Order::Latency).build().unwrap();
    for _ in 0..2 {
        ask_streamed(&router).await.unwrap();
    }
    let named = CompletionRequest { model: "typo".into(), ..request() };
    assert_eq!(route_of(&router.complete_ref(named.view()).await.unwrap()).name, "b");
    ask_streamed(&router).await.unwrap();
    assert_eq!(calls(&providers), [3, 2]);
}

#[tokio::test(start_paused = true)]
async fn route_that_lost_to_a_second_call_is_measured_as_slow() {
    let slow = (0..9).map(|_| Reply::text("x").delay(seconds(60)));
    let providers = [ScriptedProvider::new(slow), answering("b")];
    let router = routes(&providers).order(Order::Latency).hedge_after(seconds(3)).build().unwrap();
    for _ in 0..3 {
        ask_streamed(&router).await.unwrap();
    }
    assert_eq!(calls(&providers), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn route_that_was_cancelled_soon_after_its_start_does_not_count_as_fast() {
    let reply = |delay| (0..9).map(move |_| Reply::text("x").delay(seconds(delay)));
    let providers = [ScriptedProvider::new(reply(4)), ScriptedProvider::new(reply(9))];
    let router = routes(&providers).order(Order::Latency).hedge_after(seconds(3)).build().unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        ask_streamed(&router).await.unwrap();
        times.push(start.elapsed().as_secs());
    }
    // The second call begins with the slow route, because it is not measured yet. Then the fast route is preferred.
    assert_eq!(times, [4, 7, 4, 4, 4]);
}

#[tokio::test]
async fn order_by_price_follows_the_request() {
    let providers = [answering("a"), answering("b")];
    let order = Order::price_by(|request, route| match (route.name(), request.messages.len()) {
        ("a", messages) => Some(messages as f64),
        _ => Some(1.5),
    });
    let router = Router::builder()
        .route(Route::new("a", providers[0].clone()))
        .route(Route::new("b", providers[1].clone()))
        .order(order)
        .build()
        .unwrap();
    let mut request = request();
    for expected in ["a", "b"] {
        let response = router.complete_ref(request.view()).await.unwrap();
        assert_eq!(response.message.text(), expected);
        request.messages.extend(request.messages.clone());
    }
}
