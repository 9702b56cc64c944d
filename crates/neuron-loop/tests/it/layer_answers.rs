//! Layers that return a response of their own, or a changed one. The loop checks, counts and numbers what the outermost
//! layer returns.

use std::sync::Arc;

use neuron_loop::{Agent, Conversation, LoopError, OnLimit};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionResponse, ContentBlock, ContentItem, Message, ModelCall, ModelLayer, ModelNext, Role,
    StopReason, TokenUsage,
};
use serde_json::json;

use crate::support::*;

/// A layer that returns this message. It first calls the model and discards its response if `calls` is set.
#[derive(Clone)]
struct Canned {
    content: Vec<ContentBlock>,
    calls: bool,
}

impl ModelLayer for Canned {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        if self.calls {
            next.run(call).await?;
        }
        Ok(CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: Message { role: Role::Assistant, content: self.content.clone() },
            usage: TokenUsage::default(),
            stop_reason: StopReason::ToolUse,
        })
    }
}

fn tool_use(id: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "act".into(), input: json!({}) }
}

/// Regression test. Before the fix, only the provider's own responses were checked, so such a conversation could not be
/// read again.
#[tokio::test]
async fn malformed_response_of_a_layer_is_an_error() {
    let result = ContentBlock::ToolResult {
        tool_use_id: "a".into(),
        content: vec![ContentItem::Text("mine".into())],
        is_error: false,
    };
    for content in [
        vec![tool_use("a"), tool_use("a")],
        vec![tool_use("")],
        vec![tool_use("a"), result.clone()],
        vec![result],
    ] {
        for calls in [false, true] {
            let (log, provider) = (Log::default(), ScriptedProvider::new(["hi"]));
            let layer = Canned { content: content.clone(), calls };
            let agent = Agent::builder(provider).tools(registry(&log)).layer(layer).build();
            let mut chat = Conversation::new();
            let error = agent.run(&mut chat, "go").await.unwrap_err().to_string();
            assert!(error.contains("the model's answer is malformed"), "{error}");
            assert_eq!((chat.messages(), log.count("start")), (&[Message::user("go")][..], 0));
            assert_eq!(chat.turns(), 0, "what cannot be read is no turn");
            let stored = json!(chat).to_string();
            assert_eq!(serde_json::from_str::<Conversation>(&stored).unwrap(), chat);
        }
    }
}

/// Regression test. A layer that never calls the model. Before the fix, its responses were no turns: the run never
/// reached its limit, and all of its tool calls had the same idempotency key.
#[tokio::test]
async fn response_of_a_layer_is_a_turn() {
    for (on_limit, calls) in
        [(OnLimit::Fail, false), (OnLimit::Fail, true), (OnLimit::Finalize, false)]
    {
        let keys = Log::default();
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Keys(keys.clone())));
        let provider = ScriptedProvider::new((0..9).map(|_| Reply::text("discarded")));
        let layer = Canned { content: vec![tool_use("call_0")], calls };
        let agent = Agent::builder(provider.clone()).tools(tools).layer(layer).max_turns(5);
        let agent = agent.config(|config| config.on_limit = on_limit).build();
        let mut chat = Conversation::new();
        let result = agent.run(&mut chat, "go").await;
        if on_limit == OnLimit::Fail {
            assert!(matches!(result, Err(LoopError::MaxTurns(5))), "{result:?}");
        }
        let expected = if on_limit == OnLimit::Fail { 5 } else { 6 };
        assert_eq!((chat.turns(), provider.calls()), (expected, if calls { 5 } else { 0 }));
        let keys = keys.lines();
        let mut different = keys.clone();
        different.sort();
        different.dedup();
        assert_eq!((keys.len(), different.len()), (5, 5), "{keys:?}");
    }
}
