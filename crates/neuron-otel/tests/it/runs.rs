//! Tests of the exported spans of runs.

use neuron_otel::{ContentCapture, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ProviderError, ToolContext};
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

use crate::support::agents::{Chat, MODES, hook, parallel, scout_of};
use crate::support::memory::{Memory, attribute};

#[tokio::test]
async fn run_is_parent_of_its_calls() {
    let memory = Memory::new();
    let calls = [
        ("c1", "look", json!({"text": "a", "delay": 20})),
        ("c2", "look", json!({"text": "b", "delay": 10})),
    ];
    let provider = ScriptedProvider::new([Reply::tool_calls(calls), Reply::text("done")]);
    let mut agent = Chat::new(scout_of(provider).config(parallel).hook(hook(&memory)));
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    agent.run("go", &ctx).await.unwrap();
    assert_eq!(
        memory.tree(),
        "invoke_agent scout\n  chat scripted-model\n  execute_tool look\n    work a\n    more a\n  \
         execute_tool look\n    work b\n    more b\n  chat scripted-model\n"
    );
    let spans = memory.spans();
    let run = spans.iter().find(|span| span.name == "invoke_agent scout").unwrap();
    assert_eq!(attribute(run, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    for tool in spans.iter().filter(|span| span.name == "execute_tool look") {
        assert_eq!(attribute(tool, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    }
    let durations = memory.measured("gen_ai.client.operation.duration");
    let tools = durations.iter().find(|(name, _)| name.contains("execute_tool")).unwrap();
    assert_eq!(*tools.1, 2);
}

/// The root span must have `gen_ai.input.messages` and `gen_ai.output.messages`. Langfuse and Phoenix show these
/// attributes as the input and the output of a trace.
#[tokio::test]
async fn root_span_has_the_input_and_output_of_the_run() {
    for conventions in MODES {
        let memory = Memory::new();
        let provider = ScriptedProvider::new([
            Reply::tool_call("c1", "look", json!({"text": "the sea"})).with_text("I look."),
            Reply::text("Blue."),
            Reply::text("At noon."),
            Reply::error(ProviderError::InvalidRequest("no".into())),
        ]);
        let hook = hook(&memory).with_conventions(conventions).with_content(ContentCapture::Spans);
        let mut agent = Chat::new(scout_of(provider).hook(hook));
        let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
        agent.run("What is it like?", &ctx).await.unwrap();
        agent.run("When?", &ctx).await.unwrap();
        agent.run("Why?", &ctx).await.unwrap_err();

        let is_root = |span: &SpanData| span.parent_span_id == SpanId::INVALID;
        let roots: Vec<SpanData> = memory.spans().into_iter().filter(is_root).collect();
        assert_eq!(roots.len(), 3);
        let messages = |root: usize, name: &str| -> Option<Value> {
            attribute(&roots[root], name).map(|text| serde_json::from_str(&text).unwrap())
        };
        let input = |root| messages(root, "gen_ai.input.messages").unwrap();
        let output = |root| messages(root, "gen_ai.output.messages");
        let said = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
        let answer = |text: &str| {
            let mut answer = said("assistant", text);
            if conventions != SemanticConventions::Latest {
                answer["finish_reason"] = "stop".into();
            }
            Some(json!([answer]))
        };
        assert_eq!(input(0), json!([said("user", "What is it like?")]));
        assert_eq!(output(0), answer("Blue."));
        // The conversation in the second request contains the question, the call, its result and the response.
        let second = input(1);
        assert_eq!(second.as_array().unwrap().len(), 5, "{second}");
        assert_eq!(second[3], said("assistant", "Blue."));
        assert_eq!(second[4], said("user", "When?"));
        assert_eq!(output(1), answer("At noon."));
        assert_eq!(input(2)[6], said("user", "Why?"));
        assert_eq!(output(2), None);
        for root in &roots {
            assert_eq!(attribute(root, "gen_ai.conversation.id").as_deref(), Some("s-1"));
            let is_foreign = |name: &str| {
                ["langfuse.", "openinference.", "input.", "output."]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
            };
            assert!(!root.attributes.iter().any(|pair| is_foreign(pair.key.as_str())));
        }
    }
}
