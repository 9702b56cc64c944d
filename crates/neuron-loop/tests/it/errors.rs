//! Every variant of `LoopError`. After each error the history is valid and the next run works.

use neuron_loop::LoopError;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, ContextError, ContextStrategy,
    DurableContext, DurableError, HookAction, Message, Provider, ProviderError, ToolContext,
    ToolOutput, UsageLimits,
};
use serde_json::{Value, json};

use crate::support::*;

/// Checks that an agent from `make` fails with an `expected` error, whether it is awaited, streamed or stepped. Then
/// `mend` removes the cause of the error, and the next run must succeed.
async fn check(
    make: impl Fn() -> Chat<'static>,
    mend: impl Fn(&mut Chat<'_>),
    expected: impl Fn(&LoopError) -> bool,
) {
    let ctx = ToolContext::default();
    let mut agent = make();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(expected(&error), "{error:?}");
    let text = error.to_string();
    for way in WAYS {
        let mut agent = make();
        let hook = Recorder::default();
        agent.add_hook(hook.clone());
        assert_eq!(run(way, &mut agent, &ctx).await.unwrap_err(), text, "{way:?}");
        check_valid(agent.messages());
        check_pairs(&hook.log.lines());
        assert_eq!(hook.log.count(&format!("RunEnd {text}")), 1);
        let before = agent.messages().to_vec();
        mend(&mut agent);
        let result = run(way, &mut agent, &ctx).await.expect("the next run works");
        assert_eq!(result.response, "recovered", "{way:?}");
        assert_eq!(result.messages[..before.len()], before[..], "it continues the history");
    }
}

fn recovered() -> Reply {
    Reply::text("recovered")
}

#[tokio::test]
async fn provider_error_keeps_a_valid_history() {
    let errors: [fn() -> ProviderError; 3] = [
        || ProviderError::RateLimit { retry_after: None },
        || ProviderError::Authentication("invalid x-api-key".into()),
        || ProviderError::Network("connection reset".into()),
    ];
    for error in errors {
        let kind = error().kind();
        check(
            || setup([Reply::error(error()), recovered()]).builder.build(),
            |_| {},
            |error| matches!(error, LoopError::Provider(error) if error.kind() == kind),
        )
        .await;
    }
}

#[tokio::test]
async fn broken_stream_after_a_tool_call_runs_nothing() {
    let broken = || {
        calls([json!({})])
            .with_text("Let me see")
            .fail_after(6, ProviderError::ServiceUnavailable("overloaded".into()))
    };
    let early = || calls([json!({})]).end_early_after(4);
    for reply in [broken, early as fn() -> Reply] {
        let setup = setup([reply(), recovered()]);
        let mut agent = setup.builder.build();
        let ctx = ToolContext::default();
        let error = run(Way::Stream, &mut agent, &ctx).await.unwrap_err();
        assert!(error.starts_with("provider error: "), "{error}");
        assert_eq!(setup.log.lines(), Vec::<String>::new());
        assert_eq!(agent.messages(), [Message::user("go")]);
        assert_eq!(run(Way::Stream, &mut agent, &ctx).await.unwrap().response, "recovered");
    }
}

#[tokio::test]
async fn tool_error_keeps_a_valid_history() {
    check(
        || setup([calls([json!({}), json!({"fail": "x"})]), recovered()]).builder.build(),
        |_| {},
        |error| matches!(error, LoopError::Tool(_)),
    )
    .await;
}

#[tokio::test]
async fn context_error_keeps_a_valid_history() {
    struct Fails(std::sync::atomic::AtomicBool);
    impl ContextStrategy for Fails {
        fn should_compact(&self, _: &[Message], _: usize) -> bool {
            !self.0.swap(true, std::sync::atomic::Ordering::SeqCst)
        }
        async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            Err(ContextError::CompactionFailed("no room".into()))
        }
        fn token_estimate(&self, _: &[Message]) -> usize {
            0
        }
    }
    check(
        || Chat::builder(ScriptedProvider::new([recovered()]), Fails(false.into())).build(),
        |_| {},
        |error| matches!(error, LoopError::Context(ContextError::CompactionFailed(_))),
    )
    .await;
}

#[tokio::test]
async fn turn_limit_keeps_a_valid_history() {
    check(
        || setup([calls([json!({})]), recovered()]).builder.max_turns(1).build(),
        |_| {},
        |error| matches!(error, LoopError::MaxTurns(1)),
    )
    .await;
}

#[tokio::test]
async fn usage_limit_keeps_a_valid_history() {
    let limits = UsageLimits::default().with_tool_calls_limit(1);
    check(
        || {
            let replies = [calls([json!({}), json!({})]), recovered()];
            setup(replies).builder.usage_limits(limits.clone()).build()
        },
        |_| {},
        |error| matches!(error, LoopError::UsageLimitExceeded(_)),
    )
    .await;
}

#[tokio::test]
async fn hook_termination_keeps_a_valid_history() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for event in ["PreLlm", "PostLlm", "PreTool act c1", "PostTool act c0"] {
        check(
            || {
                let once = Once(Recorder::default(), event, AtomicBool::new(true));
                setup([calls([json!({}), json!({})]), recovered(), recovered()])
                    .builder
                    .hook(once)
                    .build()
            },
            |_| {},
            |error| matches!(error, LoopError::HookTerminated(reason) if reason == "enough"),
        )
        .await;
    }

    /// A hook that ends only one run, at the first event whose log line starts with the given text.
    struct Once(Recorder, &'static str, AtomicBool);
    impl neuron_types::ObservabilityHook for Once {
        async fn on_event(
            &self,
            _: neuron_types::HookEvent<'_>,
        ) -> Result<HookAction, neuron_types::HookError> {
            unreachable!()
        }
        async fn on_event_in(
            &self,
            event: neuron_types::HookEvent<'_>,
            scope: &neuron_types::HookScope<'_>,
        ) -> Result<HookAction, neuron_types::HookError> {
            self.0.on_event_in(event, scope).await?;
            let line = self.0.log.lines().pop().unwrap();
            if line.starts_with(self.1) && self.2.swap(false, Ordering::SeqCst) {
                return Ok(HookAction::Terminate { reason: "enough".into() });
            }
            Ok(HookAction::Continue)
        }
    }
}

#[tokio::test]
async fn cancellation_keeps_a_valid_history() {
    let setup = setup([recovered()]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    ctx.cancellation_token.cancel();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled));
    let ctx = ToolContext::default();
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "recovered");
}

#[tokio::test]
async fn durable_error_keeps_a_valid_history() {
    struct CancelledThere(std::sync::atomic::AtomicUsize, ScriptedProvider);
    impl DurableContext for CancelledThere {
        async fn execute_llm_call(
            &self,
            request: CompletionRequest,
            _: ActivityOptions,
        ) -> Result<CompletionResponse, DurableError> {
            match self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Err(DurableError::Cancelled),
                _ => self.1.complete(request).await.map_err(DurableError::Provider),
            }
        }
        async fn execute_tool(
            &self,
            _: &str,
            _: Value,
            _: &ToolContext,
            _: ActivityOptions,
        ) -> Result<ToolOutput, DurableError> {
            Err(DurableError::Cancelled)
        }
        no_signals_or_timers!();
    }
    check(
        || {
            let context = CancelledThere(0.into(), ScriptedProvider::new([recovered()]));
            setup([recovered()]).builder.durability(context).build()
        },
        |_| {},
        |error| matches!(error, LoopError::Durable(DurableError::Cancelled)),
    )
    .await;
}
