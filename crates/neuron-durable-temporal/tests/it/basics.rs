//! Tests of complete runs, with the requests to the model, the tool calls, and the result at the client.

use std::time::Duration;

use neuron_durable_temporal::{ModelCalls, TemporalError, TemporalOptions};
use neuron_tool::ToolRegistry;
use neuron_types::{ContentBlock, ProviderError, TokenUsage, ToolEffect, ToolError, ToolOutput};
use serde_json::json;

use crate::host::{Agent, Does, Model, TestContext, call, failed, options, text};

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("slow", ToolEffect::Pure, |input, ctx| async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ctx.usage.add(&TokenUsage { input_tokens: 1000, ..TokenUsage::default() });
        Ok(ToolOutput::text(format!("slow {input}")))
    }));
    tools.register_dyn(Does::new("quick", ToolEffect::AtMostOnce, |_, ctx| async move {
        let mut environment: Vec<_> = ctx.environment.into_iter().collect();
        environment.sort();
        let seen = (ctx.cwd, ctx.session_id, ctx.call_id, ctx.idempotency_key, environment);
        Ok(ToolOutput::text(format!("{seen:?}")))
    }));
    tools.register_dyn(Does::new("again", ToolEffect::AtMostOnce, |_, _| async {
        Err(ToolError::ModelRetry("say it better".into()))
    }));
    tools
}

fn model() -> Model {
    Model::script(vec![
        vec![
            text("I try three."),
            call("a", "slow", json!({"n": 1})),
            call("b", "quick", json!({"n": 2})),
            call("c", "again", json!({"n": 3})),
            call("d", "slow", json!({"n": 4})),
        ],
        vec![call("e", "missing", json!({}))],
        vec![text("done")],
    ])
}

async fn run(options: TemporalOptions) {
    let Some(bench) = TestContext::new("basics", &options).await else { return };
    let _worker = bench.serve(model(), tools, Agent::new(tools), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let result = outcome.result.clone().unwrap();
    assert!(!outcome.is_cut);
    assert_eq!((result.response.as_str(), result.turns), ("done", 3));
    // 10 + 11 + 12 tokens of the model, and twice 1000 tokens of the slow tool.
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (2033, 15));
    let told: Vec<_> = result.messages.iter().flat_map(|message| &message.content).collect();
    let results: Vec<_> = told
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, is_error, .. } => {
                Some((tool_use_id.as_str(), *is_error))
            }
            _ => None,
        })
        .collect();
    assert_eq!(results, [("a", false), ("b", false), ("c", true), ("d", false), ("e", true)]);
    let all = serde_json::to_string(&result.messages).unwrap();
    assert!(all.contains("slow {\\\"n\\\":1}") && all.contains("say it better"), "{all}");
    // Of the environment, only the allowed variable is visible.
    assert!(all.contains("REGION") && all.contains("north") && !all.contains("TOKEN"), "{all}");

    // The outcome can be read again.
    assert_eq!(bench.runs.get(&bench.queue).outcome().await.unwrap(), outcome);
    let history = String::from_utf8(run.history().await.unwrap()).unwrap();
    assert!(!history.contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_local_model_calls_succeeds() {
    run(options().environment(["REGION", "HOME"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_model_activities_succeeds() {
    run(options().environment(["REGION"]).model_calls(ModelCalls::Activity)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_run_reports_the_error() {
    let options = options();
    let Some(bench) = TestContext::new("fails", &options).await else { return };
    let model = Model::new(|_| Err(ProviderError::Authentication("no key".into())));
    let _worker = bench.serve(model, tools, Agent::new(tools), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let failure = failed(&run).await;
    assert_eq!(failure.kind, "Provider");
    assert!(failure.text.contains("no key"), "{}", failure.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_of_an_unknown_run_return_not_found() {
    let Some(bench) = TestContext::new("nothing", &options()).await else { return };
    let run = bench.runs.get("nothing");
    let not_found = |error| matches!(error, TemporalError::NotFound { id } if id == "nothing");
    assert!(not_found(run.outcome().await.unwrap_err()));
    assert!(not_found(run.cancel().await.unwrap_err()));
    assert!(not_found(run.signal("a", &1).await.unwrap_err()));
    assert!(not_found(run.pending().await.unwrap_err()));
}
