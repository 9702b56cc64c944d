//! Decides whether a tool call runs. First the hooks decide, and then the arguments are checked. After that the
//! permission policy decides, and at last a person's approval decision applies.

use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_types::{
    ApprovalDecision, HookEvent, LoopError, PendingCall, PermissionDecision, ResumedApproval,
    ToolCall, ToolError, ToolOutput, ToolUseRef,
};
use serde_json::Value;

use crate::ledger::PendingDecision;
use crate::parts::{CallableTools, Turn};

/// The decision on a tool call.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The call runs.
    Run,
    /// The call runs again. The agent inside it that waited for an approval resumes.
    Resume(Box<ResumedApproval>),
    /// The call does not run. The value is its result.
    Answer(Box<ToolOutput>),
    /// The call waits for an approval.
    Wait(Box<PendingCall>),
    /// The call does not run, because its tool was not offered or would reject the arguments. No approval is requested.
    /// The call still counts for the limits.
    Refuse(ToolError),
}

/// A tool call in its turn, with the tools that the calls of its response can run.
#[derive(Clone, Copy)]
pub(super) struct Calling<'c> {
    pub(super) turn: Turn<'c>,
    pub(super) tools: &'c CallableTools<'c>,
    pub(super) call: ToolUseRef<'c>,
}

impl Calling<'_> {
    /// Decides whether the call runs. The hooks decide first. `asked` is set if an approval of the call was requested
    /// earlier, and contains the decision if there is one.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook ends the run.
    pub(super) async fn decide(
        self,
        asked: Option<&PendingDecision>,
    ) -> Result<Verdict, LoopError> {
        let Self { turn, tools, call } = self;
        let event = HookEvent::PreToolExecution { tool_name: call.name, input: call.input };
        if let Some(reason) = turn.in_call(call.id).dispatch(event).await? {
            // FAULT a skipped call runs: the line -> `drop(reason);`
            // FAULT a call that a hook skips fails: `ToolOutput::text` -> `ToolOutput::error`
            return Ok(Verdict::Answer(ToolOutput::text(reason).into()));
        }
        Ok(match asked {
            Some(PendingDecision { pending, decision: Some(decision) })
                if !tools.excludes(call.name) =>
            {
                self.after_decision(pending.clone(), decision.clone())
            }
            _ => self.verdict(),
        })
    }

    /// Decides on a tool call for which no person has given an approval decision.
    fn verdict(self) -> Verdict {
        let Self { turn, tools, call } = self;
        if tools.is_invalid(call) {
            return Verdict::Answer(ToolOutput::error(invalid_arguments(call).to_string()).into());
        }
        if let Some(error) = tools.refuses(call) {
            return Verdict::Refuse(error);
        }
        let refusal = || tools.get(call.name).and_then(|tool| tool.check_input(call.input).err());
        match self.ask_policy() {
            PermissionDecision::Allow => Verdict::Run,
            PermissionDecision::Deny(reason) => Verdict::Answer(denial(&reason).into()),
            // FAULT a person is asked about what the tool refuses anyway: `refusal()` -> `refusal().filter(|_| false)`
            PermissionDecision::Ask(reason) if turn.pauses => match refusal() {
                // A person should not have to approve a call that fails anyway.
                Some(error) => Verdict::Refuse(error),
                // FAULT a call that needs an approval runs without one:
                //     `Verdict::Wait(Box::new(PendingCall::new(call.to_call(), reason)))` -> `Verdict::Run`
                None => Verdict::Wait(Box::new(PendingCall::new(call.to_call(), reason))),
            },
            // FAULT a call about which a person should be asked runs: `Verdict::Answer(denial(&reason).into())` ->
            //     `Verdict::Run`
            PermissionDecision::Ask(reason) => Verdict::Answer(denial(&reason).into()),
        }
    }

    /// Decides on a tool call for which a person has given an approval decision. The policy may still deny the call.
    fn after_decision(self, pending: PendingCall, decision: ApprovalDecision) -> Verdict {
        let allowed = match (decision, pending.nested) {
            // FAULT a call that a person denied runs: the arm -> `(ApprovalDecision::Deny { .. }, _) => Verdict::Run,`
            (ApprovalDecision::Deny { reason }, _) => {
                return Verdict::Answer(denial(&reason).into());
            }
            // FAULT a call whose result a person supplied runs: `return Verdict::Answer(output.into())` ->
            //     `Verdict::Run`
            (ApprovalDecision::Supply { output }, _) => return Verdict::Answer(output.into()),
            (ApprovalDecision::Nested { decisions }, Some(nested)) => {
                // FAULT an agent on which a person decided begins anew: the line -> `drop((nested, decisions));
                //     Verdict::Run`
                Verdict::Resume(Box::new(ResumedApproval::new(*nested, decisions)))
            }
            // FAULT the policy is not asked about what a person approved: `Verdict::Run` -> `return Verdict::Run`
            _ => Verdict::Run,
        };
        match self.ask_policy() {
            PermissionDecision::Deny(reason) => Verdict::Answer(denial(&reason).into()),
            // FAULT a call that a person approved is denied because the policy asks again: add
            //     `PermissionDecision::Ask(reason) => Verdict::Answer(denial(&reason).into()),`
            PermissionDecision::Allow | PermissionDecision::Ask(_) => allowed,
        }
    }

    /// Returns the decision of the permission policy on a tool call. Allows every call if there is no policy.
    fn ask_policy(self) -> PermissionDecision {
        let Self { turn, tools, call } = self;
        let Some(policy) = &turn.parts.definition.policy else {
            return PermissionDecision::Allow;
        };
        let definition = tools.definition(call.name);
        // A call of an unknown tool is allowed here and fails when it runs.
        if definition.is_none() && !tools.may_know(call.name) {
            return PermissionDecision::Allow;
        }
        // A policy that panics must not allow a call.
        let decide = AssertUnwindSafe(|| policy.check_call(&call.to_call(), definition));
        catch_unwind(decide).unwrap_or_else(|_| {
            tracing::error!(tool = call.name, "the permission policy panicked; the call is denied");
            // FAULT a policy that panics lets the call run: `Deny("the permission policy failed".into())` -> `Allow`
            PermissionDecision::Deny("the permission policy failed".into())
        })
    }
}

/// Returns the result of a denied tool call.
pub(super) fn denial(reason: &str) -> ToolOutput {
    ToolOutput::error(format!("permission denied: {reason}"))
}

/// Returns the error of a tool call whose arguments are not JSON.
pub(super) fn invalid_arguments(call: ToolUseRef<'_>) -> ToolError {
    let raw = ToolCall::invalid_json(call.input).unwrap_or_default();
    // Arguments that are nested too deeply fail here too. Only the parser's reason distinguishes them from a syntax
    // error.
    let reason = serde_json::from_str::<Value>(raw).err();
    let reason = reason.map(|error| format!(" ({error})")).unwrap_or_default();
    ToolError::InvalidInput(format!("the arguments of `{}` are not JSON{reason}: {raw}", call.name))
}
