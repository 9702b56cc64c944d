//! Tests of conversations that move from one provider to another.

use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, Message, Provider, Role, StopReason,
};
use neuron_provider_anthropic::Anthropic;
use neuron_testing::{AnthropicServer, Reply, ServerReply};
use serde_json::{Value, json};

use crate::support::*;

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input: json!({"a": 1}) }
}

fn results(ids: &[&str]) -> Message {
    let result = |id: &&str| ContentBlock::ToolResult {
        tool_use_id: (*id).to_owned(),
        content: vec![ContentItem::Text(format!("result of {id}"))],
        is_error: false,
    };
    Message { role: Role::User, content: ids.iter().map(result).collect() }
}

fn talk(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, tools: vec![look()], max_tokens: Some(64), ..Default::default() }
}

/// Returns a conversation with one of Anthropic's models.
fn anthropics() -> Vec<Message> {
    let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: "sig".into() };
    let search =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found =
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let cited = json!({"type": "text", "text": "cited", "citations": [{"type": "char_location"}]});
    let called = json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}, "caller": {"type": "direct"}});
    let compacted = json!({"type": "compaction", "content": "so far", "encrypted_content": "x"});
    let summary = ContentBlock::Compaction { content: "so far".into() };
    vec![
        Message::user("hi"),
        Message {
            role: Role::Assistant,
            content: vec![
                thinking,
                ContentBlock::RedactedThinking { data: "xyz".into() },
                raw("anthropic", search, None),
                raw("anthropic", found, None),
                raw("anthropic", cited, Some(text("cited"))),
                call("toolu_1"),
                raw("anthropic", called, Some(call("toolu_2"))),
            ],
        },
        results(&["toolu_1", "toolu_2"]),
        Message {
            role: Role::Assistant,
            content: vec![raw("anthropic", compacted, Some(summary)), text("\n\n"), text("Done.")],
        },
        // The response was truncated while the model was thinking.
        Message {
            role: Role::Assistant,
            content: vec![ContentBlock::Thinking { thinking: "h".into(), signature: "s".into() }],
        },
        Message::user("thanks"),
    ]
}

#[tokio::test]
async fn conversation_with_anthropic_continues_here() {
    for api in APIS {
        let server = start(["You are welcome."]).await;
        let response = api.provider(server.url()).complete(talk(anthropics())).await.unwrap();
        assert_eq!(response.message.text(), "You are welcome.");
        let sent = server.bodies()[0].to_string();
        for said in ["cited", "toolu_1", "result of toolu_2", "so far", "Done."] {
            assert!(sent.contains(said), "{said} is not in {sent}");
        }
        for private in ["srvtoolu_1", "xyz", "char_location", "sig"] {
            assert!(!sent.contains(private), "{private} is in {sent}");
        }
    }
}

/// Returns a conversation with this API that contains reasoning, two calls, a text and a refusal.
async fn history_of(api: Api) -> Vec<Message> {
    let calls = [("call_1", "look", json!({"a": 1})), ("call_2", "look", json!({}))];
    let server = start([
        ServerReply::from(Reply::tool_calls(calls).with_text("Let me see.").thinking("hm", "enc")),
        Reply::message(Vec::new())
            .thinking("cut off", "enc")
            .stop_reason(StopReason::MaxTokens)
            .into(),
        Reply::text("Here.").thinking("so", "enc").into(),
        Reply::text("I cannot.").stop_reason(StopReason::Refusal).into(),
    ])
    .await;
    let provider = api.provider(server.url());
    let mut request = talk(vec![Message::user("hi")]);
    let turns = [
        results(&["call_1", "call_2"]),
        Message::user("go on"),
        Message::user("a"),
        Message::user("b"),
    ];
    for turn in turns {
        let response = provider.complete_ref(request.view()).await.unwrap();
        request.messages.extend([response.message, turn]);
    }
    request.messages
}

#[tokio::test]
async fn conversation_moves_between_both_apis_and_anthropic() {
    for from in APIS {
        let history = history_of(from).await;
        for to in APIS {
            let server = start(["Fine."]).await;
            let provider = to.provider(server.url());
            provider.complete(talk(history.clone())).await.unwrap();
            check_sent(&server.bodies()[0].to_string(), from == to);
        }
        let server = AnthropicServer::start(["Fine."]).await.unwrap();
        let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
        provider.complete(talk(history.clone())).await.unwrap();
        check_sent(&server.bodies()[0].to_string(), false);
    }
}

#[track_caller]
fn check_sent(sent: &str, is_same: bool) {
    for said in ["Let me see.", "call_1", "result of call_2", "Here.", "I cannot."] {
        assert!(sent.contains(said), "{said} is not in {sent}");
    }
    for private in ["\"rs_", "\"msg_", "\"fc_", "encrypted_content\":"] {
        assert!(is_same || !sent.contains(private), "{private} is in {sent}");
    }
}

/// After a switch to another provider and back, the first provider must receive its own content unchanged.
#[tokio::test]
async fn returning_conversation_keeps_provider_specific_content() {
    let mut history = history_of(Api::Responses).await;
    let server = AnthropicServer::start(["Fine."]).await.unwrap();
    let anthropic = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    let response = anthropic.complete(talk(history.clone())).await.unwrap();
    history.extend([response.message, Message::user("back again")]);
    let server = start(["Welcome."]).await;
    Api::Responses.provider(server.url()).complete(talk(history)).await.unwrap();
    let sent = server.bodies()[0].to_string();
    assert!(sent.contains(r#""encrypted_content":"enc""#), "{sent}");
    assert!(sent.contains("Fine."), "{sent}");
}

fn called(id: &str, name: &str) -> Vec<Message> {
    let call = ContentBlock::ToolUse { id: id.into(), name: name.into(), input: json!({}) };
    vec![
        Message::user("hi"),
        Message { role: Role::Assistant, content: vec![call] },
        results(&[id]),
    ]
}

/// OpenAI rejected ids of more than 40 characters, which servers of other vendors create.
#[tokio::test]
async fn long_call_id_of_another_vendor_is_replaced() {
    for api in APIS {
        let server = start(["Fine."]).await;
        let id = "x".repeat(86);
        api.provider(server.url()).complete(talk(called(&id, "look"))).await.unwrap();
        let body = server.bodies()[0].to_string();
        let hash = "call_1bd78a6282a74d1d";
        assert_eq!(body.matches(hash).count(), 2, "{body}");
    }
}

/// The model called a tool that does not exist. The Responses API rejected its own item in every later request.
#[tokio::test]
async fn own_call_with_an_invalid_name_is_accepted_back() {
    let server =
        start([Reply::tool_calls([("call_1", "look up", json!({}))]), Reply::text("Fine.")]).await;
    let provider = Api::Responses.provider(server.url());
    let mut request = talk(vec![Message::user("hi")]);
    let message = provider.complete_ref(request.view()).await.unwrap().message;
    request.messages.extend([message, results(&["call_1"])]);
    provider.complete_ref(request.view()).await.unwrap();
    assert_eq!(server.bodies()[1]["input"][1]["name"], "look_up");
}

/// Compatible servers send the id of a call only in `id`. The next request had no `call_id` then.
#[tokio::test]
async fn own_call_without_call_id_is_accepted_back() {
    let server = start([Reply::tool_calls([("", "look", json!({}))]), Reply::text("Fine.")]).await;
    let provider = Api::Responses.provider(server.url());
    let mut request = talk(vec![Message::user("hi")]);
    let message = provider.complete_ref(request.view()).await.unwrap().message;
    let id = message.tool_uses().next().unwrap().id.to_owned();
    request.messages.extend([message, results(&[&id])]);
    provider.complete_ref(request.view()).await.unwrap();
    assert_eq!(server.bodies()[1]["input"][1]["call_id"], id);
}
