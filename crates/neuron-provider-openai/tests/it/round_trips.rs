//! Tests of the content blocks in responses, and of conversations with several turns.

use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, Message, Provider, Role,
    StopReason, ToolCall,
};
use neuron_testing::openai::Dialect;
use neuron_testing::{OpenAiServer, Reply, ServerReply};
use serde_json::{Value, json};

use crate::support::*;

/// A parsed response must have the content blocks of its API. Chat Completions must give portable blocks. The Responses
/// API must give raw blocks that contain its items.
#[tokio::test]
async fn response_has_the_blocks_of_its_api() {
    for api in APIS {
        let server = start([answer(), answer()]).await;
        let provider = api.provider(server.url());
        let mut expected = api.read(&answer());
        expected.message.content.retain(|block| !block.is_mark());
        let whole = provider.complete(ask("hi")).await.unwrap();
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        let streamed = soon(handle.into_response()).await.unwrap();
        for mut response in [whole, streamed] {
            let metadata = response.message.metadata().unwrap();
            assert!(metadata.request_id.is_some_and(|id| id.starts_with("req_")));
            response.message.content.retain(|block| !block.is_mark());
            assert_eq!(response, expected);
        }
    }
}

/// Appends the results of the calls in the last message, as an agent does.
fn answer_calls(request: &mut CompletionRequest) {
    let last = request.messages.last().unwrap();
    let results = last.tool_uses().map(|call| ContentBlock::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: vec![ContentItem::Text(format!("result of {}", call.id))],
        is_error: ToolCall::invalid_json(call.input).is_some(),
    });
    let content = results.collect();
    request.messages.push(Message { role: Role::User, content });
}

/// Runs a conversation until the model makes no more tool calls, and returns the last response. The first response is
/// streamed, the second is not, and so on.
///
/// # Panics
///
/// Panics if the model still makes calls after `turns` responses.
async fn converse(
    provider: &impl Provider,
    request: &mut CompletionRequest,
    turns: usize,
) -> CompletionResponse {
    for turn in 0..turns {
        let response = match turn % 2 {
            0 => {
                let handle = provider.complete_stream_ref(request.view()).await.unwrap();
                soon(handle.into_response()).await.unwrap()
            }
            _ => provider.complete_ref(request.view()).await.unwrap(),
        };
        request.messages.push(response.message.clone());
        if response.stop_reason != StopReason::ToolUse {
            return response;
        }
        answer_calls(request);
    }
    panic!("more than {turns} turns");
}

/// A strict server must accept every turn of a conversation with tool calls. Each request contains all earlier
/// responses.
#[tokio::test]
async fn conversation_with_tools_is_accepted_in_every_turn() {
    let call =
        |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "look".into(), input };
    let cut = ToolCall::invalid_json_input("{\"a\":");
    let replies = || {
        [
            Reply::message(vec![call("c1", json!({"at": [1, 2]}))]).thinking("hm", "sig"),
            Reply::message(vec![call("c2", json!({})), call("c3", cut.clone())]).with_text("And?"),
            Reply::message(vec![call("c4", json!({"z": 1, "a": 2}))]).thinking("", "sig2"),
            Reply::text("Done.").thinking("at last", "sig3"),
        ]
    };
    for api in APIS {
        for stop_with_calls in [false, true] {
            let dialect = match stop_with_calls {
                true => Dialect::default().stop_with_calls().without_call_index(),
                false => Dialect::default(),
            };
            let builder = OpenAiServer::builder().dialect(dialect);
            let server = builder.start(replies()).await.unwrap();
            let provider = api.provider(server.url());
            let mut request = CompletionRequest {
                tools: vec![look()],
                system: Some("be kind".into()),
                ..ask("hi")
            };
            let last = converse(&provider, &mut request, 4).await;
            assert_eq!(last.message.text(), "Done.");
            server.assert_complete();
            check_growth(api, &server.bodies());
        }
    }
}

#[track_caller]
fn check_growth(api: Api, bodies: &[Value]) {
    let said = if api == Api::Chat { "messages" } else { "input" };
    for pair in bodies.windows(2) {
        let list = |body: &Value| body[said].as_array().unwrap().clone();
        assert!(list(&pair[1]).starts_with(&list(&pair[0])));
        assert!(list(&pair[1]).len() > list(&pair[0]).len());
    }
}

/// The items of a response of the Responses API must be sent back unchanged. They include ids, encrypted reasoning, and
/// items of OpenAI's own tools.
#[tokio::test]
async fn items_are_sent_back_byte_for_byte() {
    let items = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAB+/=\u00e9","status":null},{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}},{"type":"function_call","id":"fc_1","call_id":"call_1","status":"completed","name":"look","arguments":"{ \"z\": 1.0, \"a\": 2 }"}"#;
    let body = format!(r#"{{"id":"resp_1","model":"m","status":"completed","output":[{items}]}}"#);
    let completed = format!("data: {{\"type\":\"response.completed\",\"response\":{body}}}\n\n");
    let whole = ServerReply::raw(200, [("content-type", "application/json")], body);
    let streamed = ServerReply::raw(200, [("content-type", "text/event-stream")], completed);
    for reply in [streamed, whole] {
        let is_streamed = reply_is_streamed(&reply);
        let server = start([reply, ServerReply::from("Done.")]).await;
        let provider = Api::Responses.provider(server.url());
        let mut request = CompletionRequest { tools: vec![look()], ..ask("hi") };
        let response = match is_streamed {
            true => {
                let handle = provider.complete_stream_ref(request.view()).await.unwrap();
                soon(handle.into_response()).await.unwrap()
            }
            false => provider.complete_ref(request.view()).await.unwrap(),
        };
        assert_eq!(response.stop_reason, StopReason::ToolUse);
        // A session stores the message in this format.
        let stored = serde_json::to_string(&response.message).unwrap();
        request.messages.push(serde_json::from_str(&stored).unwrap());
        answer_calls(&mut request);
        provider.complete_ref(request.view()).await.unwrap();
        let sent = String::from_utf8(server.requests()[1].body.clone()).unwrap();
        let items = items.replace("\\u00e9", "é");
        assert!(sent.contains(&items), "{sent}");
        let result =
            r#"{"type":"function_call_output","call_id":"call_1","output":"result of call_1"}"#;
        assert!(sent.contains(&format!("{items},{result}")), "{sent}");
    }
}

fn reply_is_streamed(reply: &ServerReply) -> bool {
    format!("{reply:?}").contains("text/event-stream")
}

/// A conversation must continue after a response that was truncated during thinking. Regression test. The next request
/// was rejected.
#[tokio::test]
async fn conversation_continues_after_response_truncated_while_thinking() {
    let thinking = Reply::message(Vec::new())
        .thinking("a long thought", "sig")
        .stop_reason(StopReason::MaxTokens);
    for api in APIS {
        let server = start([thinking.clone(), Reply::text("Here you are.")]).await;
        let provider = api.provider(server.url());
        let mut request = ask("hi");
        let response = provider.complete_ref(request.view()).await.unwrap();
        assert_eq!(response.stop_reason, StopReason::MaxTokens);
        request.messages.extend([response.message, Message::user("go on")]);
        let response = provider.complete_ref(request.view()).await.unwrap();
        assert_eq!(response.message.text(), "Here you are.");
    }
}

#[tokio::test]
async fn conversation_continues_after_refusal() {
    for api in APIS {
        let refusal = Reply::text("I cannot.").stop_reason(StopReason::Refusal);
        let server = start([refusal, Reply::text("Sure.")]).await;
        let provider = api.provider(server.url());
        let mut request = ask("hi");
        let response = provider.complete_ref(request.view()).await.unwrap();
        assert_eq!(response.stop_reason, StopReason::Refusal);
        assert_eq!(response.message.text(), "I cannot.");
        request.messages.extend([response.message, Message::user("another thing")]);
        provider.complete_ref(request.view()).await.unwrap();
        let sent = server.bodies()[1].to_string();
        assert!(sent.contains(r#""refusal":"I cannot.""#), "{sent}");
    }
}
