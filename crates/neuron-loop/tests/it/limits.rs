//! Number of calls that a limit allows, the work that it prevents, and the next run.

use neuron_loop::OnLimit;
use neuron_testing::Reply;
use neuron_types::{TokenUsage, ToolContext, UsageLimits};
use serde_json::json;

use crate::support::*;

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

/// Returns the responses of three turns with one tool call each, and a final response. Each response uses 100 input
/// tokens and 10 output tokens.
fn replies() -> Vec<Reply> {
    let turn = || calls([json!({"text": "a"})]).usage(usage(100, 10));
    vec![turn(), turn(), turn(), Reply::text("done").usage(usage(100, 10))]
}

#[track_caller]
fn check_exceeded(error: &str, text: &str) {
    assert_eq!(error, format!("usage limit exceeded: {text}"));
}

#[tokio::test]
async fn request_limit_of_n_allows_n_model_calls() {
    for way in WAYS {
        for limit in 0..=4 {
            let setup = setup(replies());
            let limits = UsageLimits::default().with_request_limit(limit);
            let mut agent = setup.builder.usage_limits(limits).build();
            let result = run(way, &mut agent, &ToolContext::default()).await;
            assert_eq!(setup.provider.calls(), limit);
            match result {
                Ok(result) => assert_eq!((limit, result.turns), (4, 4)),
                Err(error) => {
                    let text = format!("request limit exceeded: {} > {limit}", limit + 1);
                    check_exceeded(&error, &text);
                }
            }
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn turn_limit_of_n_allows_n_turns() {
    for way in WAYS {
        for limit in 0..=4 {
            let setup = setup(replies());
            let mut agent = setup.builder.max_turns(limit).build();
            let result = run(way, &mut agent, &ToolContext::default()).await;
            assert_eq!((setup.provider.calls(), agent.turns()), (limit, limit));
            assert_eq!(result.is_ok(), limit == 4, "{result:?}");
            if let Err(error) = result {
                assert_eq!(error, format!("max turns reached ({limit})"));
            }
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn token_limits_are_checked_before_tools_run() {
    let limits = UsageLimits::default;
    for (limits, text, ran) in [
        (limits().with_input_tokens_limit(199), "input token limit exceeded: 200 > 199", 1),
        (limits().with_output_tokens_limit(29), "output token limit exceeded: 30 > 29", 2),
        (limits().with_total_tokens_limit(219), "total token limit exceeded: 220 > 219", 1),
    ] {
        for way in WAYS {
            let setup = setup(replies());
            let mut agent = setup.builder.usage_limits(limits.clone()).build();
            check_exceeded(&run(way, &mut agent, &ToolContext::default()).await.unwrap_err(), text);
            assert_eq!(setup.log.count("start"), ran);
            assert_eq!(
                last_results(agent.messages()),
                [format!("c0: ![not executed: usage limit exceeded: {text}]")]
            );
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn usage_equal_to_the_limit_is_allowed() {
    for way in WAYS {
        let setup = setup(replies());
        let limits = UsageLimits::default().with_total_tokens_limit(440).with_tool_calls_limit(3);
        let mut agent = setup.builder.usage_limits(limits).build();
        assert_eq!(run(way, &mut agent, &ToolContext::default()).await.unwrap().turns, 4);
    }
}

#[tokio::test]
async fn final_response_over_a_limit_is_returned() {
    let limits = UsageLimits::default;
    for limits in [
        limits().with_output_tokens_limit(5),
        limits().with_input_tokens_limit(5),
        limits().with_total_tokens_limit(5),
    ] {
        for way in WAYS {
            let setup = setup([Reply::text("long").usage(usage(10, 1000)), Reply::text("more")]);
            let mut agent = setup.builder.usage_limits(limits.clone()).build();
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!((result.response.as_str(), result.limit_reached), ("long", None));
            // Limits apply to one run. The next run starts at zero.
            assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "more");
        }
    }
}

#[tokio::test]
async fn token_counts_add_up_and_saturate() {
    for way in WAYS {
        let whole = TokenUsage {
            cache_read_tokens: Some(7),
            cache_creation_tokens: Some(5),
            reasoning_tokens: Some(3),
            ..usage(usize::MAX - 1, 2)
        };
        let setup =
            setup([calls([json!({})]).usage(whole.clone()), Reply::text("done").usage(whole)]);
        let mut agent = setup.builder.build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let expected = TokenUsage {
            cache_read_tokens: Some(14),
            cache_creation_tokens: Some(10),
            reasoning_tokens: Some(6),
            ..usage(usize::MAX, 4)
        };
        assert_eq!((&result.usage, agent.total_usage()), (&expected, &expected));
    }
    for way in WAYS {
        let setup = setup([
            calls([json!({})]).usage(usage(usize::MAX, usize::MAX)),
            calls([json!({})]).usage(usage(usize::MAX, usize::MAX)),
        ]);
        let most = usize::MAX - 1;
        let limits = UsageLimits::default()
            .with_total_tokens_limit(most)
            .with_request_limit(usize::MAX)
            .with_tool_calls_limit(usize::MAX);
        let mut agent = setup.builder.usage_limits(limits).max_turns(usize::MAX).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        check_exceeded(&error, &format!("total token limit exceeded: {} > {most}", usize::MAX));
        assert_eq!(setup.log.count("start"), 0);
    }
}

#[tokio::test]
async fn batch_over_the_limit_runs_no_tool() {
    for way in WAYS {
        let setup = setup([
            calls([json!({"retry": "counts too"})]),
            calls([json!({}), json!({}), json!({})]),
            Reply::text("done"),
        ]);
        let limits = UsageLimits::default().with_tool_calls_limit(3);
        let mut agent = setup.builder.usage_limits(limits).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        check_exceeded(&error, "tool call limit exceeded: 4 > 3");
        assert_eq!(setup.log.count("start"), 1);
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn run_continues_with_a_higher_limit() {
    let limits = UsageLimits::default;
    for (max_turns, limits) in [
        (Some(2), limits()),
        (None, limits().with_request_limit(2)),
        (None, limits().with_input_tokens_limit(199)),
        (None, limits().with_tool_calls_limit(1)),
    ] {
        for way in WAYS {
            let setup = setup(replies());
            let mut agent = setup.builder.usage_limits(limits.clone()).build();
            agent.config_mut().max_turns = max_turns;
            let ctx = ToolContext::default();
            let error = run(way, &mut agent, &ctx).await.unwrap_err();
            assert!(error.contains("exceeded") || error.contains("max turns"), "{error}");
            assert_eq!((agent.turns(), agent.usage()), (2, &usage(200, 20)));
            assert_eq!(agent.messages().len(), 5);
            check_valid(agent.messages());
            agent.config_mut().max_turns = Some(5);
            agent.config_mut().usage_limits = None;
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!((result.response.as_str(), result.turns), ("done", 2));
            assert_eq!(agent.total_usage(), &usage(400, 40));
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn limit_of_zero_sends_nothing() {
    for on_limit in [OnLimit::Fail, OnLimit::Finalize] {
        for way in WAYS {
            for requests in [false, true] {
                let setup = setup(replies());
                let hook = Recorder::default();
                let builder = setup.builder.on_limit(on_limit).hook(hook.clone());
                let limits = UsageLimits::default().with_request_limit(0);
                let mut agent = match requests {
                    true => builder.usage_limits(limits).build(),
                    false => builder.max_turns(0).build(),
                };
                run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
                assert_eq!((setup.provider.calls(), hook.log.count("Turn")), (0, 0));
                assert_eq!(agent.messages().len(), 1);
            }
        }
    }
}

/// Regression test. If a compaction uses more tokens than a limit allows, the run must not call the model again. Before
/// the fix, it made one more call.
#[tokio::test]
async fn compaction_over_a_limit_prevents_the_next_call() {
    use neuron_types::{ContextError, ContextStrategy, Message};
    struct Costly;
    impl ContextStrategy for Costly {
        fn should_compact(&self, messages: &[Message], _: usize) -> bool {
            messages.len() > 1
        }
        async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            Ok(messages[..1].to_vec())
        }
        fn token_estimate(&self, messages: &[Message]) -> usize {
            messages.len()
        }
        async fn compact_with_usage(
            &self,
            messages: Vec<Message>,
        ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
            Ok((self.compact(messages).await?, usage(1_000_000, 1)))
        }
    }
    for way in WAYS {
        let provider = neuron_testing::ScriptedProvider::new(replies());
        let limits = UsageLimits::default().with_input_tokens_limit(1000);
        let mut agent = Chat::builder(provider.clone(), Costly)
            .tools(registry(&Log::default()))
            .usage_limits(limits)
            .build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        check_exceeded(&error, "input token limit exceeded: 1000100 > 1000");
        assert_eq!(provider.calls(), 1);

        // With `OnLimit::Finalize`, the run makes its last call in the turn that was already announced.
        let replies = [calls([json!({})]).usage(usage(100, 10)), Reply::text("landed")];
        let provider = neuron_testing::ScriptedProvider::new(replies);
        let hook = Recorder::default();
        let mut agent = Chat::builder(provider.clone(), Costly)
            .tools(registry(&Log::default()))
            .usage_limits(UsageLimits::default().with_input_tokens_limit(1000))
            .on_limit(OnLimit::Finalize)
            .hook(hook.clone())
            .build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), provider.calls()), ("landed", 2));
        assert_eq!(hook.log.count("Turn 1"), 1, "{:#?}", hook.log.lines());
    }
}
