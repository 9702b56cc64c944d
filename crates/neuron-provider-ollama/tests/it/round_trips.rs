//! Answers, whole and streamed, and conversations of several turns.

use neuron_testing::ollama::{Dialect, chat_body};
use neuron_testing::{OllamaServer, Reply, ServerReply, Wire};
use neuron_types::{
    BoxedProvider, CompletionRequest, ContentBlock, ContentItem, DocumentSource, ImageSource,
    Message, Provider, Role, StopReason, StreamEvent, ThinkingConfig, ToolDefinition,
};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn an_answer_in_one_piece() {
    let server = start([answer()]).await;
    let response = provider(server.url()).complete(ask("hi")).await.unwrap();
    assert_eq!(response, answer());
    server.assert_complete();
}

#[tokio::test]
async fn an_answer_as_a_stream() {
    let server = start([Reply::from(answer()).chunk_chars(2)]).await;
    let handle = provider(server.url()).complete_stream(ask("hi")).await;
    let events = events(handle.unwrap()).await;
    let texts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::TextDelta(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["añ", "🦀"]);
    let Some(StreamEvent::ResponseComplete(response)) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(**response, answer());
}

#[tokio::test]
async fn a_request_and_an_answer_of_several_megabytes() {
    let long = "日本 🦀\n".repeat(200_000);
    let server =
        start([Reply::text(long.clone()), Reply::text(long.clone()).chunk_chars(5000)]).await;
    let provider = provider(server.url());
    let response = soon(provider.complete(ask(&long))).await.unwrap();
    assert_eq!(response.message.text(), long);
    let handle = soon(provider.complete_stream(ask(&long))).await.unwrap();
    let response = soon(handle.into_response()).await.unwrap();
    assert_eq!(response.message.text(), long);
    let sent = &server.bodies()[1]["messages"][0]["content"];
    assert_eq!(sent, &long);
}

#[tokio::test]
async fn however_the_bytes_are_written() {
    let wires = [
        Wire::default().split_every(1),
        Wire::default().split_every(7).crlf(),
        Wire::default().no_space().comments().padded(),
    ];
    for wire in wires {
        let reply = || ServerReply::from(answer());
        let builder = OllamaServer::builder().wire(wire);
        let server = builder.start([reply(), reply()]).await.unwrap();
        let provider = provider(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap(), answer());
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        assert_eq!(soon(handle.into_response()).await.unwrap(), answer());
    }
}

#[tokio::test]
async fn a_content_type_may_have_parameters_and_any_case() {
    for content_type in [
        "application/x-ndjson",
        "Application/X-NDJSON; charset=utf-8",
        "application/ndjson",
        "application/json",
    ] {
        let bytes = lines(&answer(), 16);
        let reply = ServerReply::raw(200, [("content-type", content_type)], bytes);
        let server = start([reply]).await;
        let handle = provider(server.url()).complete_stream(ask("hi")).await;
        let response = handle.unwrap().into_response().await.unwrap();
        assert_eq!(response, answer());
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let body = chat_body(&answer(), &Dialect::default()).to_string();
    let server = start([ServerReply::raw(200, [("content-type", "application/json")], body)]).await;
    let handle = provider(server.url()).complete_stream(ask("hi")).await.unwrap();
    assert_eq!(soon(handle.into_response()).await.unwrap(), answer());
}

#[tokio::test]
async fn servers_of_other_versions() {
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

#[tokio::test]
async fn behind_a_pointer_and_in_a_task() {
    let server = start([answer(), answer()]).await;
    let provider = BoxedProvider::new(provider(server.url()));
    assert_eq!(provider.info().name, "ollama");
    let whole = tokio::spawn({
        let provider = provider.clone();
        async move { provider.complete(ask("hi")).await }
    });
    assert_eq!(soon(whole).await.unwrap().unwrap(), answer());
    let streamed = tokio::spawn(async move {
        let handle = provider.complete_stream_ref(&ask("hi")).await?;
        handle.into_response().await
    });
    assert_eq!(soon(streamed).await.unwrap().unwrap(), answer());
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

/// The server refuses what Ollama refuses, and every answer goes back to it.
#[tokio::test]
async fn a_conversation_with_tools_is_accepted_turn_by_turn() {
    let call =
        |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "look".into(), input };
    let broken = neuron_types::ToolCall::invalid_json_input("{\"a\":");
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
            let handle = provider.complete_stream_ref(&request).await.unwrap();
            soon(handle.into_response()).await.unwrap()
        } else {
            provider.complete_ref(&request).await.unwrap()
        };
        request.messages.push(response.message);
        request.messages.push(turn);
    }
    let last = provider.complete_ref(&request).await.unwrap();
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

/// A conversation may change its provider.
#[tokio::test]
async fn what_other_vendors_wrote_is_accepted() {
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

/// Fields that neuron does not know came, went back, and came again in a stream.
#[tokio::test]
async fn what_the_server_says_more_goes_back_to_it() {
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
            let handle = provider.complete_stream_ref(&request).await.unwrap();
            soon(handle.into_response()).await.unwrap()
        } else {
            provider.complete_ref(&request).await.unwrap()
        };
        assert_eq!(response.stop_reason, StopReason::ToolUse);
        request.messages.push(response.message);
        request.messages.push(message(Role::User, vec![result("c1", vec![], false)]));
    }
    provider.complete_ref(&request).await.unwrap();
    let sent = &server.bodies()[2]["messages"];
    assert_eq!((&sent[1], &sent[3]), (&fields, &fields));
}
