//! Reading the output of a typed run, and the complaint that the model gets if the output is invalid.

use neuron_types::{
    EndStrategy, LoopError, OutputSchema, StopReason, ToolCall, ToolDefinition, ToolOutput, json_in,
};
use serde_json::Value;

use super::{CallState, Ending, Ledger, Limit, Phase};

/// The required output of a typed run.
#[derive(Debug, Clone)]
pub(crate) struct OutputRules {
    /// The tool whose arguments are the output. `None` if the output is the text of the response.
    pub(crate) tool: Option<ToolDefinition>,
    pub(crate) end: EndStrategy,
    pub(crate) schema: OutputSchema,
    /// Number of times that the model may try again after an invalid output.
    pub(crate) retries: usize,
}

impl OutputRules {
    pub(crate) fn tool_name(&self) -> Option<&str> {
        self.tool.as_ref().map(|tool| &*tool.name)
    }

    /// Parses the text of a response and checks it against the schema. Returns the fault as an error.
    fn read_text(&self, text: &str) -> Result<Value, String> {
        self.schema.check(json_in(text)?).map_err(|mismatch| mismatch.to_string())
    }

    /// Returns the message that asks the model for a valid output.
    fn complaint(&self, fault: &str) -> String {
        match self.tool {
            Some(_) => format!("The task is not done: {fault}."),
            None => format!(
                "That is not the output that is wanted: {fault}. Answer again with the whole JSON \
                 and nothing else."
            ),
        }
    }

    /// Checks the arguments of an output call against the schema. Returns the fault as an error.
    fn read_call(&self, input: &Value) -> Result<Value, String> {
        if is_invalid_json(input, || self.tool.as_ref()) {
            let raw = ToolCall::invalid_json(input).unwrap_or_default();
            let error = serde_json::from_str::<Value>(raw).err();
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            return Err(format!("the arguments are not JSON{error}"));
        }
        self.schema.check(input.clone()).map_err(|mismatch| mismatch.to_string())
    }
}

impl Ledger {
    /// Reads the output of a typed run from the text of a final response. Returns `None` if the output is invalid and
    /// the model may try again. The history then ends with a complaint for the model.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] if the output is invalid and the model may not try again.
    pub(super) fn read_output(
        &mut self,
        rules: &OutputRules,
        text: &str,
        stop_reason: &StopReason,
        is_last: bool,
    ) -> Result<Option<Value>, LoopError> {
        self.tally.run.count_output_attempt();
        let read = match &rules.tool {
            Some(tool) => Err(format!("give the output by calling the tool `{}`", tool.name)),
            None => rules.read_text(text),
        };
        let reason = match (stop_reason, read) {
            (StopReason::Refusal, _) => "the model refused to answer".into(),
            (_, Ok(value)) => return Ok(Some(value)),
            (stop_reason, Err(fault)) if super::may_be_cut_off(stop_reason) => {
                format!("the answer was cut off: {fault}")
            }
            (_, Err(fault)) if is_last || self.tally.run.output_attempts > rules.retries => fault,
            (_, Err(fault)) => {
                self.ask_again(rules.complaint(&fault));
                return Ok(None);
            }
        };
        let called = self.last_calls().find(|call| Some(call.name) == rules.tool_name());
        let raw = called.map_or_else(|| text.to_owned(), |call| raw_arguments(call.input));
        Err(self.invalid_output(raw, reason, stop_reason))
    }

    /// Handles the calls of the output tool, whose arguments are the output of a typed run. Other calls of the response
    /// run later, except in these cases:
    ///
    /// - The output is valid, and [`EndStrategy::Early`] ends the run at once.
    /// - The run has reached a `limit`, so this response is the last one.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] if no output is valid and the model may not try again. The error of `limit` if
    /// there is a limit and the output tool was not called.
    pub(super) fn take_output_calls(
        &mut self,
        limit: Option<Limit>,
        rules: Option<&OutputRules>,
    ) -> Result<(), LoopError> {
        let invalid = rules.and_then(|rules| self.answer_output_calls(rules));
        let given = self.batch().is_some_and(|batch| batch.output.is_some());
        if let (Some((raw, reason)), Some(rules), false) = (invalid, rules, given)
            // FAULT an output too few is tried: `>` -> `>=` (typed::last_retry_ends_with_the_last_raw_output)
            && (limit.is_some() || self.tally.run.output_attempts > rules.retries)
        {
            let error = self.invalid_output(raw, reason, &self.stop_reason());
            self.close_batch_because_of(&error);
            return Err(error);
        }
        match (limit, rules) {
            (Some(limit), Some(rules)) if given => {
                self.close_open_calls(&limit.error().to_string());
                self.settle_output(rules, Some(limit));
            }
            (Some(limit), _) => {
                let error = limit.error();
                self.close_batch_because_of(&error);
                // The run gets only one last call, so this phase prevents a second one.
                // FAULT a limit is landed on again and again: without the line
                self.phase = Phase::Idle;
                return Err(error);
            }
            (None, Some(rules)) if given && rules.end == EndStrategy::Early => {
                self.close_open_calls("the run ended with the output of the same answer");
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets the results of the calls of the output tool, without running a tool. If an output is invalid, returns its
    /// arguments and a description of the mistake.
    fn answer_output_calls(&mut self, rules: &OutputRules) -> Option<(String, String)> {
        let name = rules.tool_name()?;
        let (mut given, mut fault) = (None, None);
        let (mut calls, counters) = self.open_batch()?;
        let (answer, has_targets) = (calls.answer, calls.batch.has_targets);
        for (index, call) in answer.tool_uses().enumerate() {
            if call.name != name {
                // Guardrails read the output from direct calls only.
                if has_targets && call.target().name == name {
                    let text = format!("call `{name}` directly, without `{}`", call.name);
                    calls.answer(index, ToolOutput::error(text));
                }
                continue;
            }
            let output = match given {
                Some(_) if rules.end != EndStrategy::Exhaustive => not_used(),
                _ => match rules.read_call(call.input) {
                    Ok(_) if given.is_some() => not_used(),
                    Ok(_) => {
                        given = Some(index);
                        ToolOutput::error("[not used: the run ended before the other calls did]")
                    }
                    Err(reason) => {
                        let hint = format!("{reason}; call `{name}` again with the whole output");
                        fault = Some((raw_arguments(call.input), reason));
                        ToolOutput::error(hint)
                    }
                },
            };
            calls.answer(index, output);
        }
        if fault.is_some() || given.is_some() {
            counters.0.run.count_output_attempt();
        }
        calls.batch.output = given;
        fault
    }

    /// Ends the run with the output that a call of the batch gave, after the other calls have ended. Returns `false` if
    /// no call gave a valid output.
    ///
    /// Without a `limit`, also returns `false` if another call failed and the strategy is [`EndStrategy::Graceful`].
    pub(crate) fn settle_output(&mut self, rules: &OutputRules, limit: Option<Limit>) -> bool {
        let Some(index) = self.batch_mut().and_then(|batch| batch.output.take()) else {
            return false;
        };
        let is_suppressed = limit.is_none()
            && rules.end == EndStrategy::Graceful
            && self.open_batch().is_some_and(|(calls, _)| {
                let mut others =
                    calls.iter().filter(|(made, _)| Some(made.name) != rules.tool_name());
                others.any(|(_, state)| matches!(state, CallState::Ended { is_error: true, .. }))
            });
        if is_suppressed {
            // The model gave a valid output, so the attempt did not fail.
            // FAULT an output that another call spoils counts as a failure: without `.saturating_sub(1)`
            //     (typed::only_invalid_outputs_use_up_the_retries)
            self.tally.run.output_attempts = self.tally.run.output_attempts.saturating_sub(1);
            let text = "not used: another tool call of the same answer failed; give the output again \
                        once that is settled";
            self.answer_call(index, ToolOutput::error(text));
            return false;
        }
        let output = self.last_calls().nth(index).and_then(|call| rules.read_call(call.input).ok());
        self.answer_call(index, ToolOutput::text("The output is accepted."));
        let stop_reason = self.stop_reason();
        let (response, limit) = (self.answer_text(), limit.map(|limit| limit.error().to_string()));
        self.phase = Phase::Ended(Ending { response, stop_reason, output, limit });
        true
    }

    /// Returns the stop reason of the response whose tool calls are being handled.
    fn stop_reason(&self) -> StopReason {
        self.batch().map_or(StopReason::ToolUse, |batch| batch.stop_reason.clone())
    }

    /// Returns the error of a typed run without a valid output.
    pub(crate) fn invalid_output(
        &self,
        raw: String,
        reason: impl Into<String>,
        stop_reason: &StopReason,
    ) -> LoopError {
        LoopError::InvalidOutput {
            raw,
            reason: reason.into(),
            attempts: self.tally.run.output_attempts,
            stop_reason: stop_reason.clone(),
        }
    }
}

/// Returns the result of a call of the output tool that is ignored, because another call already gave the output.
fn not_used() -> ToolOutput {
    ToolOutput::text("Not used: another call gave the output.")
}

/// Returns the arguments as the model wrote them if they are not valid JSON, and as JSON otherwise.
fn raw_arguments(input: &Value) -> String {
    ToolCall::invalid_json(input).map_or_else(|| input.to_string(), str::to_owned)
}

/// Returns `true` if the model's arguments were not valid JSON. The loop stores invalid arguments as text under the key
/// `invalid_json`.
///
/// Returns `false` for a tool that declares an argument with this name.
pub(crate) fn is_invalid_json<'d>(
    input: &Value,
    definition: impl FnOnce() -> Option<&'d ToolDefinition>,
) -> bool {
    if ToolCall::invalid_json(input).is_none() {
        return false;
    }
    let properties = definition().and_then(|tool| tool.input_schema.get("properties"));
    properties.and_then(|properties| properties.get("invalid_json")).is_none()
}
