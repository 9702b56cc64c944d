//! Tests of the content blocks in responses, and of a conversation with several turns.

use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, Message, Provider, Role, StopReason,
    ToolDefinition,
};
use neuron_testing::Reply;
use serde_json::json;

use crate::support::*;

/// Thinking, text and tool calls must become blocks that every provider can read, and not raw blocks with the vendor's
/// JSON.
#[tokio::test]
async fn response_has_portable_blocks() {
    let server = start([answer(), answer()]).await;
    let provider = provider(server.url());
    let whole = provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let streamed = soon(handle.into_response()).await.unwrap();
    for mut response in [whole, streamed] {
        let metadata = response.message.metadata().unwrap();
        assert!(metadata.request_id.is_some_and(|id| id.starts_with("req_")));
        response.message.content.retain(|block| !block.is_mark());
        assert_eq!(response, answer());
    }
}

fn message(role: Role, content: Vec<ContentBlock>) -> Message {
    Message { role, content }
}

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

/// A conversation with tool calls must be accepted in every turn. The test server is as strict as Anthropic, and
/// receives every response again in the next request.
#[tokio::test]
async fn conversation_with_tools_is_accepted_in_every_turn() {
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
    let broken = neuron_model::ToolCall::invalid_json_input("{\"a\":");
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
}
