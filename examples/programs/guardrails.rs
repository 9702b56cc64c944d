//! Checks the user's input before the model receives it, and the model's output before the program uses it.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Rejects messages with a credit card number.
struct NoCardNumbers;

impl InputGuardrail for NoCardNumbers {
    async fn check(&self, input: &str) -> GuardrailResult {
        let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count();
        match input.split_whitespace().any(|word| digits(word) >= 13) {
            true => GuardrailResult::Tripwire("the message has a card number".into()),
            false => GuardrailResult::Pass,
        }
    }
}

/// Rejects responses with an e-mail address, and warns about long responses.
struct NoAddresses;

impl OutputGuardrail for NoAddresses {
    async fn check(&self, output: &str) -> GuardrailResult {
        if output.contains('@') {
            return GuardrailResult::Tripwire("the response has an e-mail address".into());
        }
        match output.chars().count() {
            0..=2_000 => GuardrailResult::Pass,
            length => GuardrailResult::Warn(format!("the response has {length} characters")),
        }
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: hook
    let guardrails = GuardrailHook::new()
        .input_guardrail(NoCardNumbers)
        .output_guardrail(NoAddresses)
        .check_tool_results() // Input guardrails also check the results of tools.
        .hold_back_text(); // A stream shows no text before the check.
    let agent = Agent::builder(Anthropic::from_env()?).hook(guardrails).build();
    // ANCHOR_END: hook

    let mut conversation = Conversation::new();
    for question in [
        "My card is 4111-1111-1111-1111. Is it valid?",
        "What does your support cost?",
        "What is the address of your manager?",
    ] {
        println!("user: {question}");
        match agent.run(&mut conversation, question).await {
            Ok(result) => println!("agent: {}", result.response),
            Err(LoopError::HookTerminated(reason)) => println!("rejected: {reason}"),
            Err(error) => return Err(error.into()),
        }
        println!("messages: {}\n", conversation.messages().len());
    }
    Ok(())
}
