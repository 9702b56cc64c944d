//! The tokens of a run, including responses for which the provider reports no usage.

use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ContextStrategy, HookEvent, TokenUsage, ToolContext};
use serde_json::json;

use crate::support::*;
use crate::warnings::Warnings;

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

/// Returns two responses with a tool call and the final response. Only the second one reports its tokens.
fn replies() -> [Reply; 3] {
    [
        calls([json!({"text": "a".repeat(400)})]).usage(usage(0, 0)),
        calls([json!({"text": "b"})]).usage(usage(1_000, 10)),
        Reply::text("c".repeat(80)).usage(usage(0, 0)),
    ]
}

#[tokio::test]
async fn response_without_usage_counts_as_estimated() {
    for way in WAYS {
        let warnings = Warnings::keep();
        let setup = setup(replies());
        let mut agent = setup.builder.build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let [go, first, first_result, _, second_result, last] = &result.messages[..] else {
            panic!("{:?}", result.messages)
        };
        let size = |messages: &[&neuron_types::Message]| {
            let messages: Vec<_> = messages.iter().copied().cloned().collect();
            window().token_estimate(&messages)
        };
        let request = &setup.provider.requests()[0];
        assert_eq!(&request.messages[..], std::slice::from_ref(go));
        // First call: everything is estimated. Last call: the reported size plus an estimate of later messages.
        let input = window().estimate_request(request.view()) + 1_010 + size(&[second_result]);
        let output = size(&[first]) + size(&[last]);
        assert!(input > 1_020 && output > 100, "{input} {output}");
        assert_eq!(agent.estimated_usage(), &usage(input, output), "{way:?}");
        assert_eq!(result.usage, usage(input + 1_000, output + 10));
        assert_eq!(agent.usage(), &result.usage);
        assert_eq!(agent.total_usage(), &result.usage);
        assert!(size(&[first_result]) > 0);
        assert_eq!(warnings.count("no usage"), 1, "once a run: {:#?}", warnings.lines());
    }
}

#[tokio::test]
async fn response_keeps_the_reported_usage_and_the_next_run_counts_again() {
    struct Reported(Log);
    impl neuron_types::ObservabilityHook for Reported {
        async fn on_event(
            &self,
            event: HookEvent<'_>,
        ) -> Result<neuron_types::HookAction, neuron_types::HookError> {
            if let HookEvent::PostLlmCall { response } = event {
                self.0.push(response.usage.total_tokens().to_string());
            }
            Ok(neuron_types::HookAction::Continue)
        }
    }
    let log = Log::default();
    let script = replies().into_iter().chain([Reply::text("more").usage(usage(7, 1))]);
    let mut agent = Chat::builder(ScriptedProvider::new(script), window())
        .tools(registry(&Log::default()))
        .hook(Reported(log.clone()))
        .build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap();
    assert_eq!(log.lines(), ["0", "1010", "0"]);
    agent.run_text("more", &ctx).await.unwrap();
    assert_eq!((agent.usage(), agent.estimated_usage()), (&usage(7, 1), &usage(0, 0)));
}
