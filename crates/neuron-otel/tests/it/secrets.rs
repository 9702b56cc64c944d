//! Tests that check that content is exported only if it is enabled. They search every byte that the receiver got.

use neuron_otel::ContentCapture;
use neuron_testing::Reply;
use neuron_types::{ContentBlock, ProviderError};
use prost::Message as _;
use serde_json::json;

use crate::support::agents::Chat;
use crate::support::checker::Checker;
use crate::support::look::Behavior;
use crate::support::setup::{Case, Setup, cases, context};
use crate::support::telemetry::Exported;

/// Words in the texts of the user, the model and the tool.
const SECRETS: [&str; 4] = ["quokka", "wombat", "numbat", "bilby"];

fn replies() -> [Reply; 2] {
    let call = ContentBlock::ToolUse {
        id: "call_1".to_owned(),
        name: "look".to_owned(),
        // The result of the tool contains its arguments.
        input: json!({"at": "wombat"}),
    };
    let first = Reply::message(vec![ContentBlock::Text("a numbat".to_owned()), call]);
    [first, Reply::text("the bilby")]
}

async fn run(setup: &Setup, hook: neuron_otel::OtelHook) {
    let mut agent = Chat::new(setup.plain(Behavior::Echo).hook(hook));
    agent.run("Where is the quokka?", &context()).await.unwrap();
}

/// Returns the elements of `words` that the received data contains.
fn found<'a>(exported: &Exported, words: &[&'a str]) -> Vec<&'a str> {
    let mut bytes = Vec::new();
    for span in &exported.spans {
        bytes.extend(span.encode_to_vec());
    }
    for metric in &exported.metrics {
        bytes.extend(metric.encode_to_vec());
    }
    let text = String::from_utf8_lossy(&bytes);
    words.iter().copied().filter(|word| text.contains(word)).collect()
}

fn finish(setup: Setup, captures: bool) -> Exported {
    let Case { version, .. } = setup.case;
    let exported = setup.telemetry.finish();
    let checker = if captures { Checker::with_content(version) } else { Checker::new(version) };
    checker.assert_holds(&exported);
    exported
}

#[tokio::test]
async fn content_is_not_sent_by_default() {
    for case in cases() {
        let setup = case.start(replies()).await;
        run(&setup, setup.hook()).await;
        assert_eq!(found(&finish(setup, false), &SECRETS), Vec::<&str>::new(), "{case:?}");
    }
}

#[tokio::test]
async fn content_in_errors_is_not_sent_by_default() {
    for case in cases() {
        let error = ProviderError::InvalidRequest("the quokka is not allowed".to_owned());
        let setup = case.start([Reply::error(error)]).await;
        setup.agent(Behavior::Echo).run("wombat?", &context()).await.unwrap_err();
        assert_eq!(found(&finish(setup, false), &SECRETS), Vec::<&str>::new(), "{case:?}");
    }
}

#[tokio::test]
async fn content_is_sent_in_spans_if_enabled() {
    for case in cases() {
        let setup = case.start(replies()).await;
        run(&setup, setup.hook().with_content(ContentCapture::Spans)).await;
        let exported = finish(setup, true);
        assert_eq!(found(&exported, &SECRETS), SECRETS, "{case:?}");
        let forest = exported.forest();
        let tool = &forest.one("execute_tool look").attributes;
        assert_eq!(tool.json("gen_ai.tool.call.arguments"), Some(json!({"at": "wombat"})));
        let chats = forest.all(&format!("chat {}", case.vendor.model()));
        let asked = chats[1].attributes.json("gen_ai.input.messages").unwrap();
        let roles: Vec<&str> = asked
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|message| message["role"].as_str())
            .collect();
        assert_eq!(roles, ["user", "assistant", "tool"], "{asked}");
        let answer = chats[1].attributes.json("gen_ai.output.messages").unwrap();
        assert_eq!(answer[0]["parts"][0], json!({"type": "text", "content": "the bilby"}));
        let system = chats[0].attributes.json("gen_ai.system_instructions").unwrap();
        assert_eq!(system, json!([{"type": "text", "content": "You plan."}]));
        let tools = chats[0].attributes.json("gen_ai.tool.definitions").unwrap();
        assert_eq!(tools[0]["name"], "look");
    }
}

#[tokio::test]
async fn redacted_content_is_not_sent() {
    for case in cases() {
        let setup = case.start(replies()).await;
        let hook = setup.hook().with_content(ContentCapture::SpansAndEvents);
        let hook = hook.with_redaction(|_, value| {
            let text = value.to_string();
            let text = SECRETS.iter().fold(text, |text, secret| text.replace(secret, "___"));
            serde_json::from_str(&text).ok()
        });
        run(&setup, hook).await;
        let exported = finish(setup, true);
        assert_eq!(found(&exported, &SECRETS), Vec::<&str>::new(), "{case:?}");
        assert_eq!(found(&exported, &["___"]), ["___"]);
    }
}
