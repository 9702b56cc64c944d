//! What a typed run wants of the model's answers: which of them is the output, and what is said to
//! the model of one that does not fit.

use neuron_types::{
    JsonMismatch, LoopError, Message, Role, StopReason, ToolCall, ToolDefinition, ToolOutput,
};
use serde_json::Value;

use crate::EndStrategy;
use crate::engine::answer_text;
use crate::output_text::json_in;
use crate::permits::has_invalid_arguments;
use crate::tool_results::ToolResults;

/// What a typed run wants, and how far it has come.
#[derive(Debug)]
pub(crate) struct Output {
    /// The tool by which the model gives the output; without one, the output is the answer's text.
    pub(crate) tool: Option<ToolDefinition>,
    pub(crate) end: EndStrategy,
    /// Whether a value is an output.
    pub(crate) check: fn(Value) -> Result<(), JsonMismatch>,
    /// How often the model may try again.
    pub(crate) retries: usize,
    /// How many of its answers were taken for an output.
    pub(crate) attempts: usize,
    /// The call that gave a valid output, while the other calls of the answer run.
    given: Option<(usize, Value)>,
    /// The output, once the run ends with it.
    pub(crate) accepted: Option<Value>,
}

impl Output {
    pub(crate) fn new(
        tool: Option<ToolDefinition>,
        end: EndStrategy,
        check: fn(Value) -> Result<(), JsonMismatch>,
        retries: usize,
        attempts: usize,
    ) -> Self {
        Self { tool, end, check, retries, attempts, given: None, accepted: None }
    }

    pub(crate) fn tool_name(&self) -> Option<&str> {
        self.tool.as_ref().map(|tool| &*tool.name)
    }

    /// Takes an answer that ends the run, unless it lacks the output: then it returns what to say to
    /// the model.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] when the model is not to try again.
    pub(crate) fn take_answer(
        &mut self,
        messages: &[Message],
        stop_reason: &StopReason,
    ) -> Result<Option<String>, LoopError> {
        let text = answer_text(messages);
        self.attempts += 1;
        let read = match &self.tool {
            Some(tool) => Err(format!("give the output by calling the tool `{}`", tool.name)),
            None => self.read_text(&text),
        };
        let reason = match (stop_reason, read) {
            (StopReason::Refusal, _) => "the model refused to answer".into(),
            (_, Ok(value)) => {
                self.accepted = Some(value);
                return Ok(None);
            }
            (
                StopReason::MaxTokens
                | StopReason::ContentFilter
                | StopReason::ContextWindowExceeded,
                Err(fault),
            ) => format!("the answer was cut off: {fault}"),
            (_, Err(fault)) if self.attempts > self.retries => fault,
            (_, Err(fault)) => return Ok(Some(self.complaint(&fault))),
        };
        let raw = self.arguments_in(messages).unwrap_or(text);
        Err(self.failure(raw, reason, stop_reason))
    }

    fn read_text(&self, text: &str) -> Result<Value, String> {
        let value = json_in(text)?;
        (self.check)(value.clone()).map_err(|mismatch| mismatch.to_string())?;
        Ok(value)
    }

    fn complaint(&self, fault: &str) -> String {
        match self.tool {
            Some(_) => format!("The task is not done: {fault}."),
            None => format!(
                "That is not the output that is wanted: {fault}. Answer again with the whole JSON \
                 and nothing else."
            ),
        }
    }

    /// Answers the calls of the output tool, and says whether the others are to run.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] when no call fits and the model is not to try again.
    pub(crate) fn take_calls(
        &mut self,
        calls: &[ToolCall],
        stop_reason: &StopReason,
        results: &mut ToolResults<'_>,
    ) -> Result<bool, LoopError> {
        self.given = None;
        let Some(tool) = &self.tool else {
            return Ok(true);
        };
        let mut fault = None;
        for (index, call) in calls.iter().enumerate().filter(|(_, call)| call.name == tool.name) {
            let output = match self.given {
                Some(_) if self.end != EndStrategy::Exhaustive => not_used(),
                _ => match read_call(call, tool, self.check) {
                    Ok(()) if self.given.is_some() => not_used(),
                    Ok(()) => {
                        self.given = Some((index, call.input.clone()));
                        // Until the other calls have ended.
                        ToolOutput::error("[not used: the run ended before the other calls did]")
                    }
                    Err(reason) => {
                        let hint =
                            format!("{reason}; call `{}` again with the whole output", tool.name);
                        fault = Some((raw_arguments(call), reason));
                        ToolOutput::error(hint)
                    }
                },
            };
            results.finish(index, output);
        }
        self.attempts += usize::from(fault.is_some() || self.given.is_some());
        match fault {
            _ if self.given.is_some() && self.end == EndStrategy::Early => {
                results.because("the run ended with the output of the same answer");
                Ok(false)
            }
            _ if self.given.is_some() => Ok(true),
            Some((raw, reason)) if self.attempts > self.retries => {
                Err(self.failure(raw, reason, stop_reason))
            }
            _ => Ok(true),
        }
    }

    /// Decides, once the other calls of an answer have ended, whether the run ends with its output.
    pub(crate) fn settle(&mut self, results: &mut ToolResults<'_>) -> bool {
        let Some((index, value)) = self.given.take() else {
            return false;
        };
        let is_output =
            |call: &ToolCall| self.tool.as_ref().is_some_and(|tool| tool.name == call.name);
        let failed = |(index, call): (usize, &ToolCall)| {
            !is_output(call) && results.output(index).is_some_and(|output| output.is_error)
        };
        let is_suppressed =
            self.end == EndStrategy::Graceful && results.calls().iter().enumerate().any(failed);
        if is_suppressed {
            // The model gave a valid output: this is no attempt that failed.
            self.attempts -= 1;
            let text = "not used: another tool call of the same answer failed; give the output again \
                        once that is settled";
            results.finish(index, ToolOutput::error(text));
            return false;
        }
        results.finish(index, ToolOutput::text("The output is accepted."));
        self.accepted = Some(value);
        true
    }

    fn failure(
        &self,
        raw: String,
        reason: impl Into<String>,
        stop_reason: &StopReason,
    ) -> LoopError {
        LoopError::InvalidOutput {
            raw,
            reason: reason.into(),
            attempts: self.attempts,
            stop_reason: stop_reason.clone(),
        }
    }

    /// The arguments of the output tool in the last answer.
    fn arguments_in(&self, messages: &[Message]) -> Option<String> {
        let tool = self.tool.as_ref()?;
        let answer = messages.iter().rev().find(|message| message.role == Role::Assistant)?;
        let call = answer.tool_uses().find(|call| call.name == tool.name)?;
        Some(raw_text(call.input))
    }
}

fn not_used() -> ToolOutput {
    ToolOutput::text("Not used: another call gave the output.")
}

/// Checks the output that a call gives.
fn read_call(
    call: &ToolCall,
    tool: &ToolDefinition,
    check: fn(Value) -> Result<(), JsonMismatch>,
) -> Result<(), String> {
    if has_invalid_arguments(call, Some(tool)) {
        let error = serde_json::from_str::<Value>(&raw_arguments(call)).err();
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        return Err(format!("the arguments are not JSON{error}"));
    }
    check(call.input.clone()).map_err(|mismatch| mismatch.to_string())
}

fn raw_arguments(call: &ToolCall) -> String {
    raw_text(&call.input)
}

/// Arguments as the model wrote them, as far as that is known.
fn raw_text(input: &Value) -> String {
    ToolCall::invalid_json(input).map_or_else(|| input.to_string(), str::to_owned)
}
