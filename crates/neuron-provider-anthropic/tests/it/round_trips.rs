//! Answers, whole and streamed, and conversations of several turns.

use neuron_testing::{AnthropicServer, Reply, ServerReply, Wire};
use neuron_types::{
    BoxedProvider, CompletionRequest, ContentBlock, ContentItem, Message, Provider, Role,
    StopReason, StreamEvent, ToolDefinition,
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
    let sent = &server.bodies()[1]["messages"][0]["content"][0]["text"];
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
        let builder = AnthropicServer::builder().wire(wire);
        let server = builder.start([reply(), reply()]).await.unwrap();
        let provider = provider(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap(), answer());
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        assert_eq!(soon(handle.into_response()).await.unwrap(), answer());
    }
}

#[tokio::test]
async fn a_content_type_may_have_parameters_and_any_case() {
    let sse = neuron_testing::anthropic::sse_bytes(&answer(), 16, &Wire::default());
    for content_type in
        ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream;charset=UTF-8"]
    {
        let reply = ServerReply::raw(200, [("content-type", content_type)], sse.clone());
        let server = start([reply]).await;
        let handle = provider(server.url()).complete_stream(ask("hi")).await;
        let response = handle.unwrap().into_response().await.unwrap();
        assert_eq!(response, answer());
    }
}

#[tokio::test]
async fn behind_a_pointer_and_in_a_task() {
    let server = start([answer(), answer()]).await;
    let provider = BoxedProvider::new(provider(server.url()));
    assert_eq!(provider.info().name, "anthropic");
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

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

/// The server refuses what the vendor refuses, and every answer goes back to it.
#[tokio::test]
async fn a_conversation_with_tools_is_accepted_turn_by_turn() {
    let search = ContentBlock::Raw {
        provider: "anthropic".into(),
        json: json!({
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": "https://example.com"}],
        }),
        portable: None,
    };
    let cited = ContentBlock::Raw {
        provider: "anthropic".into(),
        json: json!({"type": "text", "text": "so", "citations": [{"type": "char_location"}]}),
        portable: Some(Box::new(ContentBlock::Text("so".into()))),
    };
    let call =
        |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "look".into(), input };
    let redacted = ContentBlock::RedactedThinking { data: "xyz".into() };
    let summary = ContentBlock::Compaction { content: "so far".into() };
    let blank = || ContentBlock::Text("\n\n".into());
    let broken = neuron_types::ToolCall::invalid_json_input("{\"a\":");
    let server = start([
        Reply::message(vec![blank(), call("c1", json!({"at": [1, 2]}))]).thinking("", "sig"),
        Reply::message(vec![redacted, search, cited, call("c2", json!({})), call("c3", broken)]),
        Reply::message(vec![summary, blank(), ContentBlock::Text("Done.".into())]),
        Reply::text("Bye.").stop_reason(StopReason::EndTurn),
    ])
    .await;
    let provider = provider(server.url());
    let text = |text: &str| vec![ContentItem::Text(text.into())];
    let mut request = CompletionRequest {
        tools: vec![ToolDefinition {
            name: "look".into(),
            title: None,
            description: "Looks".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }],
        system: Some("be kind".into()),
        ..ask("hi")
    };
    let turns = [
        message(Role::User, vec![result("c1", vec![], false)]),
        message(
            Role::User,
            vec![
                result("c2", text("22"), false),
                result("c3", vec![], true),
                ContentBlock::Text("hurry".into()),
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
}
