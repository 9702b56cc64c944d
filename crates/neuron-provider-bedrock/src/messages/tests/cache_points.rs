//! Tests of the place of the cache point in a conversation.

use neuron_model::CacheControl;

use super::*;

/// Returns the contents of the messages of a request with a cache point at the end of the conversation.
#[track_caller]
fn cached(model: &str, messages: &[Message]) -> Vec<Value> {
    let cache = Some(CacheControl { ttl: None });
    let request = RequestRef { model, messages, cache, ..Default::default() };
    let body = written(request, Settings::default());
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].clone()).collect()
}

#[test]
fn cache_point_comes_before_documents_at_the_end() {
    let point = json!({"cachePoint": {"type": "default"}});
    let sent = |content| cached(CLAUDE, &[user(content)]);
    assert_eq!(sent(vec![text("a"), pdf()]), [json!([{"text": "a"}, point, sent_pdf(1)])]);
    assert_eq!(sent(vec![pdf(), text("a")]), [json!([sent_pdf(1), {"text": "a"}, point])]);
}

/// Nova rejects a point after the result of a tool: <https://github.com/zeroclaw-labs/zeroclaw/issues/8720>.
#[test]
fn cache_point_of_nova_follows_the_last_text_of_the_user() {
    let point = || json!({"cachePoint": {"type": "default"}});
    let image = json!({"image": {"format": "png", "source": {"bytes": "aGk="}}});
    let (hi, answer) = (json!({"text": "hi"}), sent_result("x", "1"));
    let called = |last: Vec<ContentBlock>| {
        let results = [vec![result("x", vec![item("1")])], last].concat();
        [Message::user("hi"), assistant(vec![call("x")]), user(results)]
    };
    for nova in [NOVA, "global.amazon.nova-2-lite-v1:0"] {
        let results_alone = cached(nova, &called(vec![]));
        assert_eq!(results_alone, [json!([hi, point()]), json!([sent_call("x")]), json!([answer])]);
        let with_text = cached(nova, &called(vec![text("a"), png()]));
        assert_eq!(with_text[0], json!([hi]));
        assert_eq!(with_text[2], json!([answer, {"text": "a"}, point(), image]));
        assert_eq!(cached(nova, &[user(vec![png()])]), [json!([image])]);
    }
    let claude = cached(CLAUDE, &called(vec![]));
    assert_eq!(claude[2], json!([answer, point()]));
}

#[test]
fn cache_point_of_the_caller_is_not_repeated() {
    let point = json!({"cachePoint": {"type": "default"}});
    let own = || raw("aws.bedrock", point.clone(), None);
    for model in [CLAUDE, NOVA] {
        let contents = cached(model, &[user(vec![text("hi"), own()])]);
        assert_eq!(contents, [json!([{"text": "hi"}, point])], "{model}");
    }
}
