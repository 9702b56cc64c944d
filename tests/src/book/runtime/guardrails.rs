//! Tests the code and the statements of the section "Guardrails" of neuron's book.

use neuron_context::SlidingWindowStrategy;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{LoopError, ToolContext};

mod no_secrets {
    use neuron_runtime::{GuardrailResult, InputGuardrail};
    use std::future::Future;

    pub(crate) struct NoSecrets;
    impl InputGuardrail for NoSecrets {
        fn check(&self, input: &str) -> impl Future<Output = GuardrailResult> + Send {
            async move {
                if input.contains("API_KEY") || input.contains("sk-") {
                    GuardrailResult::Tripwire("Input contains a secret".to_string())
                } else {
                    GuardrailResult::Pass
                }
            }
        }
    }
}

mod no_pii {
    use neuron_runtime::{GuardrailResult, OutputGuardrail};
    use std::future::Future;

    pub(crate) struct NoPiiOutput;

    impl OutputGuardrail for NoPiiOutput {
        fn check(&self, output: &str) -> impl Future<Output = GuardrailResult> + Send {
            async move {
                // Check for email addresses
                if output.contains('@') && output.contains('.') {
                    return GuardrailResult::Tripwire(
                        "Response contains a potential email address".to_string(),
                    );
                }
                // Check for phone number patterns (sequences of 10+ digits)
                let digit_count = output.chars().filter(|c| c.is_ascii_digit()).count();
                if digit_count >= 10 {
                    return GuardrailResult::Tripwire(
                        "Response contains a potential phone number".to_string(),
                    );
                }
                GuardrailResult::Pass
            }
        }
    }
}

use no_pii::{NoPiiOutput, NoPiiOutput as NoProfanity};
pub(crate) use no_secrets::NoSecrets;

struct NoSqlInjection;

impl neuron_runtime::InputGuardrail for NoSqlInjection {
    async fn check(&self, input: &str) -> neuron_runtime::GuardrailResult {
        match input.contains("DROP TABLE") {
            true => neuron_runtime::GuardrailResult::Warn("it looks like SQL".into()),
            false => neuron_runtime::GuardrailResult::Pass,
        }
    }
}

/// Contains the code of the section "Running Multiple Guardrails" of neuron's book.
async fn several(user_input: &str) -> neuron_runtime::GuardrailResult {
    use neuron_runtime::{ErasedInputGuardrail, run_input_guardrails};

    let no_secrets = NoSecrets;
    let no_sql = NoSqlInjection;
    let guardrails: Vec<&dyn ErasedInputGuardrail> = vec![&no_secrets, &no_sql];

    let result = run_input_guardrails(&guardrails, user_input).await;
    if result.is_tripwire() {
        // Reject the input
    }
    result
}

#[tokio::test]
async fn tripwire_overrides_a_warning() {
    use neuron_runtime::GuardrailResult::{Pass, Tripwire, Warn};

    assert_eq!(several("hello").await, Pass);
    assert_eq!(several("DROP TABLE users").await, Warn("it looks like SQL".into()));
    let both = several("DROP TABLE users; -- sk-1").await;
    assert_eq!(both, Tripwire("Input contains a secret".into()));
}

/// Tests the section "GuardrailHook" of neuron's book.
#[tokio::test]
async fn guardrail_hook_checks_input_and_output() {
    let run = async |question: &str, answer: &str| {
        let provider = ScriptedProvider::new([Reply::text(answer)]);
        let calls = provider.clone();
        let (context, registry) = (SlidingWindowStrategy::new(20, 100_000), ToolRegistry::new());

        use neuron_loop::AgentLoop;
        use neuron_runtime::GuardrailHook;

        let hook = GuardrailHook::new().input_guardrail(NoSecrets).output_guardrail(NoProfanity);

        let mut agent = AgentLoop::builder(provider, context).tools(registry).build();
        agent.add_hook(hook);

        let result = agent.run_text(question, &ToolContext::default()).await;
        (result.map(|result| result.response), calls.calls())
    };
    let (answer, calls) = run("hi", "hello").await;
    assert_eq!((answer.unwrap().as_str(), calls), ("hello", 1));
    let (blocked, calls) = run("my key is sk-1", "hello").await;
    assert!(matches!(blocked, Err(LoopError::HookTerminated(reason)) if reason.contains("secret")));
    // The rejected input did not reach the model.
    assert_eq!(calls, 0);
    let (blocked, calls) = run("hi", "write to a@b.com").await;
    assert!(matches!(blocked, Err(LoopError::HookTerminated(reason)) if reason.contains("email")));
    assert_eq!(calls, 1);
}

/// Tests the section "Complete guardrail integration with AgentLoop" of neuron's book.
#[tokio::test]
async fn rejected_response_ends_the_run() {
    let provider = ScriptedProvider::new([Reply::text("It is john@example.com.")]);
    let (context, tools) = (SlidingWindowStrategy::new(20, 100_000), ToolRegistry::new());
    let ctx = ToolContext::default();

    use neuron_loop::{AgentLoop, LoopError};
    use neuron_runtime::GuardrailHook;

    let guardrail_hook = GuardrailHook::builder().output_guardrail(NoPiiOutput).build();

    let mut agent = AgentLoop::builder(provider, context).tools(tools).hook(guardrail_hook).build();

    // Handle guardrail rejection
    match agent.run_text("What's John's email?", &ctx).await {
        Ok(result) => panic!("Response: {}", result.response),
        Err(LoopError::HookTerminated(reason)) => {
            println!("Guardrail blocked: {reason}");
            // Present safe fallback to user
            assert!(reason.contains("Response contains a potential email address"), "{reason}");
        }
        Err(e) => panic!("Other error: {e}"),
    }
    let kept = format!("{:?}", agent.messages());
    assert!(!kept.contains("john@example.com"), "{kept}");
}
