//! Decides on a call by the hooks, its arguments, the policy, and the decision of a person, in this order.

use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_types::{
    ApprovalDecision, HookEvent, LoopError, PendingCall, PermissionDecision, ResumedApproval,
    ToolCall, ToolError, ToolOutput, ToolUseRef,
};
use serde_json::Value;

use crate::ledger::{Asked, is_invalid_json};
use crate::parts::{Env, Hooks, Offered};

/// The decision on a call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It runs.
    Run,
    /// It runs, and the agent that waited inside it goes on.
    Resume(Box<ResumedApproval>),
    /// It does not run. This is its result.
    Answer(Box<ToolOutput>),
    /// It waits for a person.
    Wait(Box<PendingCall>),
    /// It does not run, because its tool is hidden, or would refuse it so that nobody need be asked. It counts as
    /// started.
    Refuse(ToolError),
}

/// Asks the hooks about a call, and then decides. `asked` holds the decision of a person.
///
/// # Errors
///
/// [`LoopError::HookTerminated`].
pub(crate) async fn decide(
    hooks: Hooks<'_>,
    tools: &Offered<'_>,
    call: ToolUseRef<'_>,
    asked: Option<Box<Asked>>,
) -> Result<Verdict, LoopError> {
    let env = hooks.env;
    let event = HookEvent::PreToolExecution { tool_name: call.name, input: call.input };
    if let Some(reason) = hooks.in_call(call.id).ask(event).await? {
        return Ok(Verdict::Answer(ToolOutput::text(reason).into()));
    }
    Ok(match asked.map(|asked| *asked) {
        Some(Asked { pending, decision: Some(decision) }) if !tools.hides(call.name) => {
            after_decision(env, tools, call, pending, decision)
        }
        _ => verdict(env, tools, call),
    })
}

/// Decides on a call that the model has just made.
fn verdict(env: &Env<'_>, tools: &Offered<'_>, call: ToolUseRef<'_>) -> Verdict {
    if is_invalid_json(call.input, || tools.definition(call.name)) {
        return Verdict::Answer(ToolOutput::error(invalid_arguments(call).to_string()).into());
    }
    if tools.hides(call.name) {
        return Verdict::Refuse(ToolError::NotFound(call.name.to_owned()));
    }
    let refusal = || tools.get(call.name).and_then(|tool| tool.check_input(call.input).err());
    match ask_policy(env, tools, call) {
        PermissionDecision::Allow => Verdict::Run,
        PermissionDecision::Deny(reason) => Verdict::Answer(denial(&reason).into()),
        PermissionDecision::Ask(reason) if env.pauses => match refusal() {
            // It is not worth a question.
            Some(error) => Verdict::Refuse(error),
            None => Verdict::Wait(Box::new(PendingCall::new(call.to_call(), reason))),
        },
        PermissionDecision::Ask(reason) => Verdict::Answer(denial(&reason).into()),
    }
}

/// Decides on a call on which a person decided. The policy may still deny it.
fn after_decision(
    env: &Env<'_>,
    tools: &Offered<'_>,
    call: ToolUseRef<'_>,
    pending: PendingCall,
    decision: ApprovalDecision,
) -> Verdict {
    let allowed = match (decision, pending.nested) {
        (ApprovalDecision::Deny { reason }, _) => return Verdict::Answer(denial(&reason).into()),
        (ApprovalDecision::Supply { output }, _) => return Verdict::Answer(output.into()),
        (ApprovalDecision::Nested { decisions }, Some(nested)) => {
            Verdict::Resume(Box::new(ResumedApproval::new(*nested, decisions)))
        }
        _ => Verdict::Run,
    };
    match ask_policy(env, tools, call) {
        PermissionDecision::Deny(reason) => Verdict::Answer(denial(&reason).into()),
        PermissionDecision::Allow | PermissionDecision::Ask(_) => allowed,
    }
}

fn ask_policy(env: &Env<'_>, tools: &Offered<'_>, call: ToolUseRef<'_>) -> PermissionDecision {
    // A tool that does not exist runs into its error.
    let Some(policy) = &env.parts.definition.policy else {
        return PermissionDecision::Allow;
    };
    let Some(definition) = tools.definition(call.name) else {
        return PermissionDecision::Allow;
    };
    // A policy that breaks must not let anything through.
    let decide = AssertUnwindSafe(|| policy.check_call(&call.to_call(), Some(definition)));
    catch_unwind(decide).unwrap_or_else(|_| {
        tracing::error!(tool = call.name, "the permission policy panicked; the call is denied");
        PermissionDecision::Deny("the permission policy failed".into())
    })
}

/// The result of a call that may not run.
pub(crate) fn denial(reason: &str) -> ToolOutput {
    ToolOutput::error(format!("permission denied: {reason}"))
}

/// The error of arguments that are not JSON.
pub(crate) fn invalid_arguments(call: ToolUseRef<'_>) -> ToolError {
    let raw = ToolCall::invalid_json(call.input).unwrap_or_default();
    // Nesting that is too deep ends here too: only the reason tells it from a slip.
    let reason = serde_json::from_str::<Value>(raw).err();
    let reason = reason.map(|error| format!(" ({error})")).unwrap_or_default();
    ToolError::InvalidInput(format!("the arguments of `{}` are not JSON{reason}: {raw}", call.name))
}
