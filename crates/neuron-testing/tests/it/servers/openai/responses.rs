//! Tests of the Responses API, with and without streams.

use neuron_testing::openai::{Dialect, responses_bytes};
use neuron_testing::{OpenAiServer, Reply, Wire};
use neuron_types::{CompletionResponse, ContentBlock, ProviderError, StopReason};
use serde_json::{Value, json};

use super::{RESPONSES, call, post, raw, response, start, thinking};

fn everything() -> CompletionResponse {
    let mut whole = response(vec![
        thinking("hmm", "sig"),
        ContentBlock::Text("añ🦀".into()),
        raw(json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}), None),
        call("c1", json!({"a": 1})),
    ]);
    whole.stop_reason = StopReason::ToolUse;
    whole
}

fn message(part: Value) -> Value {
    json!({
        "id": "msg_id_9_1",
        "type": "message",
        "status": "completed",
        "content": [part],
        "role": "assistant",
    })
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn function_call(arguments: &str, status: &str) -> Value {
    json!({
        "id": "fc_id_9_3",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": "c1",
        "name": "f",
    })
}

#[tokio::test]
async fn response_without_stream_repeats_the_request_settings() {
    let server = start([everything()]).await;
    let fields = json!({
        "store": false,
        "instructions": "be kind",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
    });
    let answer = post(&server, RESPONSES, fields).await;
    assert_eq!(answer.header("x-request-id"), Some("req_1"));
    let body = answer.json();
    assert_eq!((&body["id"], &body["object"]), (&json!("id_9"), &json!("response")));
    assert_eq!((&body["status"], &body["error"]), (&json!("completed"), &Value::Null));
    assert_eq!((&body["store"], &body["instructions"]), (&json!(false), &json!("be kind")));
    assert_eq!(body["reasoning"], json!({"effort": "low"}));
    assert_eq!(
        body["output"],
        json!([
            {
                "id": "rs_id_9_0",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hmm"}],
                "encrypted_content": "sig",
            },
            message(text_part("añ🦀")),
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            function_call("{\"a\":1}", "completed"),
        ])
    );
    assert_eq!(body["usage"]["input_tokens_details"]["cached_tokens"], 40);
    assert_eq!(body["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

#[tokio::test]
async fn reasoning_is_encrypted_only_if_requested() {
    let reply = || Reply::text("hello").thinking("hmm", "");
    let server = start([reply(), reply(), Reply::text("hello").thinking("", "sig")]).await;
    let include = || json!({"include": ["reasoning.encrypted_content"]});
    let body = post(&server, RESPONSES, json!({})).await.json();
    assert_eq!(body["output"][0].get("encrypted_content"), None);
    let body = post(&server, RESPONSES, include()).await.json();
    assert_eq!(body["output"][0]["encrypted_content"], "encrypted");
    let body = post(&server, RESPONSES, include()).await.json();
    assert_eq!(body["output"][0]["encrypted_content"], "sig");
    assert_eq!(body["output"][0]["summary"], json!([]));
}

#[tokio::test]
async fn stream_has_the_events_of_openai() {
    let server = start([Reply::from(everything()).chunk_chars(2)]).await;
    let fields = json!({"stream": true, "stream_options": {"include_obfuscation": false}});
    let answer = post(&server, RESPONSES, fields).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut events = answer.typed_events();
    for (number, event) in events.iter_mut().enumerate() {
        let fields = event.as_object_mut().unwrap();
        assert_eq!(fields.shift_remove("sequence_number"), Some(json!(number)));
    }
    let reasoning =
        |summary: Value| json!({"id": "rs_id_9_0", "type": "reasoning", "summary": summary});
    let at = |kind: &str, item: &str, output: usize, more: Value| {
        let mut event =
            json!({"type": format!("response.{kind}"), "item_id": item, "output_index": output});
        for (key, value) in more.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    let summary = |kind: &str, key: &str, value: Value| {
        at(kind, "rs_id_9_0", 0, json!({"summary_index": 0, key: value}))
    };
    let summary_part = |text: &str| json!({"type": "summary_text", "text": text});
    let part = |kind: &str, value: Value| {
        at(kind, "msg_id_9_1", 1, json!({"content_index": 0, "part": value}))
    };
    let text = |kind: &str, key: &str, value: &str| {
        let more = json!({"content_index": 0, "logprobs": [], key: value});
        at(&format!("output_text.{kind}"), "msg_id_9_1", 1, more)
    };
    let item = |kind: &str, output: usize, item: Value| json!({"type": format!("response.output_item.{kind}"), "output_index": output, "item": item});
    let arguments = |kind: &str, more: Value| {
        at(&format!("function_call_arguments.{kind}"), "fc_id_9_3", 3, more)
    };
    let mut empty = message(json!(null));
    empty["content"] = json!([]);
    empty["status"] = json!("in_progress");
    let searched = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let expected = [
        item("added", 0, reasoning(json!([]))),
        summary("reasoning_summary_part.added", "part", summary_part("")),
        summary("reasoning_summary_text.delta", "delta", json!("hm")),
        summary("reasoning_summary_text.delta", "delta", json!("m")),
        summary("reasoning_summary_text.done", "text", json!("hmm")),
        summary("reasoning_summary_part.done", "part", summary_part("hmm")),
        item("done", 0, reasoning(json!([summary_part("hmm")]))),
        item("added", 1, empty),
        part("content_part.added", text_part("")),
        text("delta", "delta", "añ"),
        text("delta", "delta", "🦀"),
        text("done", "text", "añ🦀"),
        part("content_part.done", text_part("añ🦀")),
        item("done", 1, message(text_part("añ🦀"))),
        item("added", 2, searched.clone()),
        item("done", 2, searched),
        item("added", 3, function_call("", "in_progress")),
        arguments("delta", json!({"delta": "{\""})),
        arguments("delta", json!({"delta": "a\""})),
        arguments("delta", json!({"delta": ":1"})),
        arguments("delta", json!({"delta": "}"})),
        arguments("done", json!({"arguments": "{\"a\":1}"})),
        item("done", 3, function_call("{\"a\":1}", "completed")),
    ];
    assert_eq!(events[2..events.len() - 1], expected);
    for (event, kind) in events.iter().zip(["response.created", "response.in_progress"]) {
        assert_eq!(event["type"], kind);
        assert_eq!(event["response"]["status"], "in_progress");
        assert_eq!(event["response"]["output"], json!([]));
        assert_eq!(event["response"]["usage"], Value::Null);
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][3], function_call("{\"a\":1}", "completed"));
    assert_eq!(last["response"]["usage"]["total_tokens"], 59);
}

#[tokio::test]
async fn last_event_matches_the_stop_reason() {
    let reply = |reason: StopReason| Reply::text("hello").stop_reason(reason);
    let cases = [
        (StopReason::MaxTokens, "response.incomplete", json!({"reason": "max_output_tokens"})),
        (StopReason::ContentFilter, "response.incomplete", json!({"reason": "content_filter"})),
        (StopReason::Other("steered".into()), "response.incomplete", json!({"reason": "steered"})),
        (StopReason::Refusal, "response.completed", Value::Null),
    ];
    let server = start(cases.iter().map(|(reason, ..)| reply(reason.clone()))).await;
    for (reason, kind, details) in cases {
        let events = post(&server, RESPONSES, json!({"stream": true})).await.typed_events();
        let last = events.last().unwrap();
        assert_eq!(last["type"], kind);
        assert_eq!(last["response"]["incomplete_details"], details);
        let item = &last["response"]["output"][0];
        let expected = if details.is_null() { "completed" } else { "incomplete" };
        assert_eq!(item["status"], expected, "{reason:?}");
        let part = if reason == StopReason::Refusal { "refusal" } else { "output_text" };
        assert_eq!(item["content"][0]["type"], part);
    }
}

#[tokio::test]
async fn stream_errors_depend_on_the_dialect() {
    let reply =
        || Reply::text("hello").fail_after(3, ProviderError::ServiceUnavailable("busy".into()));
    let server = start([reply()]).await;
    let events = post(&server, RESPONSES, json!({"stream": true})).await.typed_events();
    assert_eq!(events.len(), 5);
    assert_eq!(
        events[3],
        json!({
            "type": "error",
            "error": {
                "message": "busy",
                "type": "service_unavailable_error",
                "param": null,
                "code": "server_is_overloaded",
            },
            "sequence_number": 3,
        })
    );
    assert_eq!(
        (&events[4]["type"], &events[4]["sequence_number"]),
        (&json!("response.failed"), &json!(4))
    );
    assert_eq!(events[4]["response"]["status"], "failed");
    let failure = json!({"code": "server_is_overloaded", "message": "busy"});
    assert_eq!(events[4]["response"]["error"], failure);

    let flat = Dialect::default().flat_stream_errors();
    let server = OpenAiServer::builder().dialect(flat).start([reply()]).await.unwrap();
    let events = post(&server, RESPONSES, json!({"stream": true})).await.typed_events();
    assert_eq!(events.len(), 4);
    assert_eq!(
        events[3],
        json!({
            "type": "error",
            "code": "server_is_overloaded",
            "message": "busy",
            "param": null,
            "sequence_number": 3,
        })
    );
}

#[tokio::test]
async fn server_sends_the_bytes_of_responses_bytes() {
    let whole = response(vec![ContentBlock::Text("hello".into())]);
    let server = start([whole.clone()]).await;
    let answer = post(&server, RESPONSES, json!({"stream": true})).await;
    assert_eq!(answer.bytes(), responses_bytes(&whole, 16, &Wire::default()));
}

#[tokio::test]
async fn raw_items_are_streamed() {
    let part = json!({"type": "output_text", "text": "hello", "annotations": []});
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [part]});
    let server = start([response(vec![raw(item, Some(ContentBlock::Text("hello".into())))])]).await;
    let events = post(&server, RESPONSES, json!({"stream": true})).await.typed_events();
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "hello");
}
