//! Tests of the content blocks in responses, and of conversations with several turns.

use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, DocumentSource, ImageSource, Message, Provider,
    Role, StopReason, ThinkingConfig, ToolDefinition,
};
use neuron_testing::ollama::{Dialect, chat_body, chat_bytes};
use neuron_testing::{OllamaServer, Reply, ServerReply, Wire};
use serde_json::json;

use crate::support::*;

/// Thinking, text and tool calls must become blocks that every provider can read, and not raw blocks with the vendor's
/// JSON.
#[tokio::test]
async fn response_has_portable_blocks() {
    let server = start([answer(), answer()]).await;
    let provider = provider(server.url());
    assert_eq!(provider.complete(ask("hi")).await.unwrap(), answer());
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    assert_eq!(soon(handle.into_response()).await.unwrap(), answer());
}

/// The response to a streamed request must be accepted if it has a JSON content type. It may be JSON lines, or a whole
/// response from a server that does not stream.
#[tokio::test]
async fn stream_with_json_content_type_is_accepted() {
    let body = chat_body(&answer(), &Dialect::default()).to_string().into_bytes();
    let lines = chat_bytes(&answer(), 16, &Wire::default(), &Dialect::default());
    for (content_type, bytes) in [
        ("application/json", body),
        ("application/json", lines.clone()),
        ("application/ndjson", lines),
    ] {
        let server = start([ServerReply::raw(200, [("content-type", content_type)], bytes)]).await;
        let handle = provider(server.url()).complete_stream(ask("hi")).await;
        assert_eq!(soon(handle.unwrap().into_response()).await.unwrap(), answer());
    }
}

#[tokio::test]
async fn responses_of_other_server_versions_are_parsed() {
    let calls = || Reply::tool_calls([("a", "look", json!({"a": 1})), ("b", "see", json!({}))]);
    for dialect in [
        Dialect::default(),
        Dialect::default().calls_apart(),
        Dialect::default().calls_in_last_line(),
        Dialect::default().without_call_ids(),
        Dialect::default().without_call_ids().calls_apart().without_prompt_count(),
    ] {
        let builder = OllamaServer::builder().dialect(dialect.clone());
        let server = builder.start([calls(), calls()]).await.unwrap();
        let provider = provider(server.url());
        let whole = provider.complete(ask("hi")).await.unwrap();
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        let streamed = handle.into_response().await.unwrap();
        for response in [whole, streamed] {
            assert_eq!(response.stop_reason, StopReason::ToolUse, "{dialect:?}");
            let calls: Vec<_> = response.message.tool_uses().collect();
            let names: Vec<_> = calls.iter().map(|call| call.name).collect();
            assert_eq!(names, ["look", "see"], "{dialect:?}");
            assert_ne!(calls[0].id, calls[1].id, "{dialect:?}");
            assert!(calls.iter().all(|call| !call.id.is_empty()), "{dialect:?}");
        }
    }
}

fn message(role: Role, content: Vec<ContentBlock>) -> Message {
    Message { role, content }
}

fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

fn raw(provider: &str, json: serde_json::Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

/// A conversation with tool calls must be accepted in every turn. The test server is as strict as Ollama, and receives
/// every response again in the next request.
#[tokio::test]
async fn conversation_with_tools_is_accepted_in_every_turn() {
    let call =
        |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "look".into(), input };
    let broken = neuron_model::ToolCall::invalid_json_input("{\"a\":");
    let server = start([
        Reply::message(vec![call("c1", json!({"at": [1, 2]}))]).thinking("hm", ""),
        Reply::message(vec![text_block("so"), call("c2", json!({})), call("c3", broken)]),
        Reply::message(vec![text_block("Done.")]),
        Reply::text("Bye.").stop_reason(StopReason::EndTurn),
    ])
    .await;
    let provider = provider(server.url()).options(json!({"num_ctx": 4096})).keep_alive("-1");
    let text = |text: &str| vec![ContentItem::Text(text.into())];
    let png = || ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
    let mut request = CompletionRequest {
        tools: vec![ToolDefinition {
            name: "look".into(),
            title: None,
            description: "Looks".into(),
            input_schema: json!({"type": "object", "properties": {"at": true}}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }],
        system: Some("be kind".into()),
        thinking: Some(ThinkingConfig::Adaptive),
        ..ask("hi")
    };
    let turns = [
        message(Role::User, vec![result("c1", vec![ContentItem::Image { source: png() }], false)]),
        message(
            Role::User,
            vec![
                result("c2", text("22"), false),
                result("c3", vec![], true),
                text_block("hurry"),
                ContentBlock::Image { source: png() },
                ContentBlock::Document { source: DocumentSource::PlainText { data: "d".into() } },
            ],
        ),
        Message::user("thanks"),
    ];
    for (index, turn) in turns.into_iter().enumerate() {
        let response = if index % 2 == 0 {
            let handle = provider.complete_stream_ref(request.view()).await.unwrap();
            soon(handle.into_response()).await.unwrap()
        } else {
            provider.complete_ref(request.view()).await.unwrap()
        };
        request.messages.push(response.message);
        request.messages.push(turn);
    }
    let last = provider.complete_ref(request.view()).await.unwrap();
    assert_eq!(last.message.text(), "Bye.");
    server.assert_complete();
    let bodies = server.bodies();
    for pair in bodies.windows(2) {
        let messages = |index: usize| pair[index]["messages"].as_array().unwrap();
        assert!(messages(1).starts_with(messages(0)));
    }
    let asked = &bodies[3]["messages"][2];
    assert_eq!(asked["thinking"], "hm");
    assert_eq!(asked["tool_calls"][0]["id"], "c1");
}

/// A conversation that began with other vendors must be accepted after it moves to Ollama.
#[tokio::test]
async fn conversation_of_other_vendors_is_accepted() {
    let cited = json!({"type": "text", "text": "so", "citations": [{"type": "char_location"}]});
    let call = ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!([1]) };
    let signed = ContentBlock::Thinking { thinking: "hm".into(), signature: "sig".into() };
    let foreign = vec![
        signed,
        ContentBlock::RedactedThinking { data: "x".into() },
        ContentBlock::Compaction { content: "so far".into() },
        raw("anthropic", cited, Some(text_block("so"))),
        raw("openai", json!({"type": "reasoning", "encrypted_content": "x"}), None),
        raw("openai", json!({"type": "function_call"}), Some(call)),
    ];
    let server = start(["Yes."]).await;
    let request = CompletionRequest {
        messages: vec![
            Message::user("hi"),
            message(Role::Assistant, foreign),
            message(Role::User, vec![result("c1", vec![], false)]),
        ],
        ..Default::default()
    };
    provider(server.url()).complete(request).await.unwrap();
    assert_eq!(
        server.bodies()[0]["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "so farso", "tool_calls": [
                {"id": "c1", "function": {"name": "look", "arguments": {"input": [1]}}},
            ]},
            {"role": "tool", "content": "", "tool_name": "look", "tool_call_id": "c1"},
        ])
    );
}

/// Unknown fields of a response must be sent back in the next request. The test checks this for a whole response and
/// for a stream.
#[tokio::test]
async fn unknown_fields_are_sent_back() {
    let fields = json!({
        "role": "assistant",
        "content": "a",
        "new": "x",
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {}, "signature": "s"}}],
    });
    let body = json!({"model": "m", "message": fields, "done": true}).to_string() + "\n";
    let reply = || ServerReply::raw(200, [("content-type", "application/x-ndjson")], body.clone());
    let server = start([reply(), reply(), Reply::text("Bye.").into()]).await;
    let provider = provider(server.url());
    let mut request = ask("hi");
    for stream in [false, true] {
        let response = if stream {
            let handle = provider.complete_stream_ref(request.view()).await.unwrap();
            soon(handle.into_response()).await.unwrap()
        } else {
            provider.complete_ref(request.view()).await.unwrap()
        };
        assert_eq!(response.stop_reason, StopReason::ToolUse);
        request.messages.push(response.message);
        request.messages.push(message(Role::User, vec![result("c1", vec![], false)]));
    }
    provider.complete_ref(request.view()).await.unwrap();
    let sent = &server.bodies()[2]["messages"];
    assert_eq!((&sent[1], &sent[3]), (&fields, &fields));
}
