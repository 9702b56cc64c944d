//! What is to happen with each call of an answer: by its arguments, by the policy, and by what a person
//! decided.

use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecision, PendingCall, PermissionDecision, PermissionPolicy, ResumedApproval, ToolCall,
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use crate::{LoopConfig, ToolErrorPolicy};

/// Why a call does not run that was wrong when it was made, and then was not.
pub(crate) const NOT_ASKED: &str =
    "a person must be asked about the call, and the model did not make it like this";

/// What is to happen with a call.
pub(crate) enum Permit {
    /// It runs.
    Run,
    /// It runs, and what waited inside it goes on.
    Resume(ResumedApproval),
    /// It does not run; this is its result.
    Answer(ToolOutput),
    /// It waits for a person.
    Hold(PendingCall),
    /// The tool refuses it, so that nobody need be asked: it runs into that error and no further.
    Refused,
}

/// Who decides which calls may run.
pub(crate) struct Permits<'a> {
    policy: Option<&'a Arc<dyn PermissionPolicy>>,
    tools: &'a ToolRegistry,
    /// Whether a call waits for a person when the policy asks; else it is denied.
    pause: bool,
    errors: ToolErrorPolicy,
}

impl<'a> Permits<'a> {
    pub(crate) fn new(
        policy: Option<&'a Arc<dyn PermissionPolicy>>,
        tools: &'a ToolRegistry,
        config: &LoopConfig,
        pause: bool,
    ) -> Self {
        Self { policy, tools, pause, errors: config.tool_errors }
    }

    /// Decides on the calls that the model has just made.
    ///
    /// # Errors
    ///
    /// The position of a call whose arguments are not JSON, with what is wrong; unless the model is
    /// to see that.
    pub(crate) fn of_answer(
        &self,
        calls: &[ToolCall],
        open: &[usize],
    ) -> Result<Vec<Permit>, (usize, ToolError)> {
        let is_invalid =
            |call: &ToolCall| has_invalid_arguments(call, self.tools.definition(&call.name));
        let permit = |(index, call)| match (is_invalid(call), self.errors) {
            // It has its result.
            _ if !open.contains(&index) => Ok(Permit::Run),
            (false, _) => Ok(self.permit(call)),
            (true, ToolErrorPolicy::ReturnToModel) => {
                let error = invalid_arguments(call).to_string();
                Ok(Permit::Answer(ToolOutput::error(error)))
            }
            (true, ToolErrorPolicy::EndRun) => Err((index, invalid_arguments(call))),
        };
        calls.iter().enumerate().map(permit).collect()
    }

    pub(crate) fn permit(&self, call: &ToolCall) -> Permit {
        match self.ask_policy(call) {
            PermissionDecision::Allow => Permit::Run,
            PermissionDecision::Deny(reason) => denied(&reason),
            // What the tool refuses is not worth a question: it runs into its error.
            PermissionDecision::Ask(_) if self.pause && self.is_refused(call) => Permit::Refused,
            PermissionDecision::Ask(reason) if self.pause => {
                Permit::Hold(PendingCall::new(call.clone(), reason))
            }
            PermissionDecision::Ask(reason) => denied(&reason),
        }
    }

    /// Decides on a call on which a person decided: the policy may still deny it.
    pub(crate) fn of_decision(
        &self,
        call: &ToolCall,
        pending: &PendingCall,
        decision: Option<&ApprovalDecision>,
    ) -> Permit {
        let allowed = |permit| match self.ask_policy(call) {
            PermissionDecision::Deny(reason) => denied(&reason),
            PermissionDecision::Allow | PermissionDecision::Ask(_) => permit,
        };
        match (decision, &pending.nested) {
            (None, _) => Permit::Hold(pending.clone()),
            (Some(ApprovalDecision::Deny { reason }), _) => denied(reason),
            (Some(ApprovalDecision::Supply { output }), _) => Permit::Answer(output.clone()),
            (Some(ApprovalDecision::Nested { decisions }), Some(nested)) => {
                allowed(Permit::Resume(ResumedApproval::new((**nested).clone(), decisions.clone())))
            }
            (Some(_), _) => allowed(Permit::Run),
        }
    }

    fn is_refused(&self, call: &ToolCall) -> bool {
        self.tools.get(&call.name).is_some_and(|tool| tool.check_input(&call.input).is_err())
    }

    fn ask_policy(&self, call: &ToolCall) -> PermissionDecision {
        // A tool that does not exist runs into its error.
        let (Some(policy), Some(definition)) = (self.policy, self.tools.definition(&call.name))
        else {
            return PermissionDecision::Allow;
        };
        // A policy that breaks must not let anything through.
        let decide = AssertUnwindSafe(|| policy.check_call(call, Some(definition)));
        catch_unwind(decide).unwrap_or_else(|_| {
            tracing::error!(tool = call.name, "the permission policy panicked; the call is denied");
            PermissionDecision::Deny("the permission policy failed".into())
        })
    }
}

fn denied(reason: &str) -> Permit {
    Permit::Answer(denial(reason))
}

/// What the model is told of a call that may not run.
pub(crate) fn denial(reason: &str) -> ToolOutput {
    ToolOutput::error(format!("permission denied: {reason}"))
}

/// A tool in whose place stands what refuses a call as it does. Middleware may mend the arguments: then
/// the tool would run although nobody was asked.
struct Refusing(Arc<dyn ToolDyn>);

/// The same tools, of which the one that refuses a call never runs.
pub(crate) fn refusing(tools: &ToolRegistry, name: &str) -> ToolRegistry {
    let mut tools = tools.clone();
    if let Some(tool) = tools.remove(name) {
        tools.register_dyn(Arc::new(Refusing(tool)));
    }
    tools
}

impl ToolDyn for Refusing {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn definition(&self) -> ToolDefinition {
        self.0.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(ready(self.0.check_input(&input).map(|()| denial(NOT_ASKED))))
    }

    fn effect(&self) -> ToolEffect {
        self.0.effect()
    }

    fn runs_alone(&self) -> bool {
        self.0.runs_alone()
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.0.check_input(input)
    }
}

/// Whether a call's arguments were not JSON. A tool that takes an argument of the name that marks
/// them is not meant.
pub(crate) fn has_invalid_arguments(call: &ToolCall, definition: Option<&ToolDefinition>) -> bool {
    if ToolCall::invalid_json(&call.input).is_none() {
        return false;
    }
    let properties = definition.and_then(|tool| tool.input_schema.get("properties"));
    properties.and_then(|properties| properties.get("invalid_json")).is_none()
}

/// What is wrong with arguments that are not JSON.
fn invalid_arguments(call: &ToolCall) -> ToolError {
    let raw = ToolCall::invalid_json(&call.input).unwrap_or_default();
    // Nesting that is too deep ends here too: only the reason tells it from a slip.
    let reason = serde_json::from_str::<Value>(raw).err();
    let reason = reason.map(|error| format!(" ({error})")).unwrap_or_default();
    ToolError::InvalidInput(format!("the arguments of `{}` are not JSON{reason}: {raw}", call.name))
}
