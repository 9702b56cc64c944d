//! Tests of conversations that move from one provider to another, or from one family of models to another.

use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, Message, Provider, Role, transcript,
};
use neuron_provider_anthropic::Anthropic;
use neuron_provider_bedrock::Bedrock;
use neuron_testing::{AnthropicServer, BedrockServer, Reply};
use serde_json::json;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6";

fn results(message: &Message) -> Message {
    let result = |id: &str| ContentBlock::ToolResult {
        tool_use_id: id.to_owned(),
        content: vec![ContentItem::Text(format!("result of {id}"))],
        is_error: false,
    };
    let content = message.tool_uses().map(|call| result(call.id)).collect();
    Message { role: Role::User, content }
}

fn talk(messages: &[Message]) -> CompletionRequest {
    let tools = vec![
        serde_json::from_value(json!({
            "name": "look", "description": "looks", "input_schema": {"type": "object"},
        }))
        .unwrap(),
    ];
    let messages = messages.to_vec();
    CompletionRequest { messages, tools, max_tokens: Some(64), ..Default::default() }
}

/// Adds a turn of a provider, with the results of its calls.
async fn turn(provider: &impl Provider, messages: &mut Vec<Message>) {
    let message = provider.complete(talk(messages)).await.unwrap().message;
    let next = results(&message);
    let is_over = next.content.is_empty();
    messages.extend([message, if is_over { Message::user("go on") } else { next }]);
    // Sessions store the conversation as JSON.
    let stored = serde_json::to_string(&*messages).unwrap();
    *messages = serde_json::from_str(&stored).unwrap();
    assert_eq!(transcript::validate(messages), Ok(()));
}

fn bedrock(server: &BedrockServer, model: &str) -> Bedrock {
    Bedrock::new("us-east-1", BedrockServer::API_KEY).base_url(server.url()).model(model)
}

fn call(id: &str) -> Reply {
    Reply::tool_calls([(id, "look", json!({"a": 1}))])
}

/// The signatures of Claude are valid on all platforms, so the reasoning moves with the conversation.
#[tokio::test]
async fn claude_continues_on_another_platform_and_returns() {
    let there =
        AnthropicServer::start([call("toolu_1").thinking("hm", "sig1"), Reply::text("end")])
            .await
            .unwrap();
    let here = BedrockServer::start([call("tooluse_2").thinking("hmm", "sig2")]).await.unwrap();
    let anthropic = Anthropic::new(AnthropicServer::API_KEY).base_url(there.url());
    let mut messages = vec![Message::user("hi")];
    turn(&anthropic, &mut messages).await;
    turn(&bedrock(&here, CLAUDE), &mut messages).await;
    turn(&anthropic, &mut messages).await;
    let sent = &here.bodies()[0]["messages"][1]["content"];
    assert_eq!(
        sent,
        &json!([
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig1"}}},
            {"toolUse": {"toolUseId": "toolu_1", "name": "look", "input": {"a": 1}}},
        ])
    );
    let sent = &there.bodies()[1]["messages"];
    let kept = json!({"type": "thinking", "thinking": "hmm", "signature": "sig2"});
    assert_eq!(sent[3]["content"][0], kept);
    assert_eq!(sent[4]["content"][0]["tool_use_id"], "tooluse_2");
}

/// The server rejects the reasoning of Claude, texts beside results, and texts in Mistral's results for some families.
#[tokio::test]
async fn conversation_continues_with_other_families() {
    let families = [
        "deepseek.r1-v1:0",
        "us.meta.llama4-scout-17b-instruct-v1:0",
        "mistral.mistral-large-2402-v1:0",
        "us.writer.palmyra-x5-v1:0",
        "global.amazon.nova-2-lite-v1:0",
        "openai.gpt-oss-120b-1:0",
        "qwen.qwen3-32b-v1:0",
        CLAUDE,
    ];
    let mut replies = vec![call("a/1").thinking("hm", "sig1")];
    replies.extend((0..families.len()).map(|turn| call(&format!("call/{turn}")).with_text("ok")));
    let server = BedrockServer::start(replies).await.unwrap();
    let mut messages = vec![Message::user("hi")];
    turn(&bedrock(&server, CLAUDE), &mut messages).await;
    for model in families {
        messages.push(Message::user("and then?"));
        turn(&bedrock(&server, model), &mut messages).await;
    }
    let bodies = server.bodies();
    let has_reasoning: Vec<_> =
        bodies.iter().map(|body| body.to_string().contains("sig1")).collect();
    let mut expected = vec![false; families.len() + 1];
    expected[families.len()] = true;
    assert_eq!(has_reasoning, expected);
}
