//! Checks the order of a stream's events, and that its deltas add up to its final response.

use neuron_types::{
    CompletionResponse, ProviderError, Role, StreamError, StreamEvent, StreamHandle, ToolCall,
    ToolUseRef,
};
use serde_json::Value;

use super::meaning::{signature, thinking};
use crate::case::{Case, shown};

/// Checks the events of a complete stream, and returns its response.
///
/// The events must be deltas, followed by `Usage`, `MessageComplete` and `ResponseComplete`.
pub(super) fn check_events(case: &Case, mut events: Vec<StreamEvent>) -> CompletionResponse {
    let ends = events.split_off(events.len().saturating_sub(3));
    let response = match <[StreamEvent; 3]>::try_from(ends) {
        Ok(
            [
                StreamEvent::Usage(usage),
                StreamEvent::MessageComplete(message),
                StreamEvent::ResponseComplete(response),
            ],
        ) => {
            case.equal("the tokens of Usage", &usage, &response.usage);
            case.equal("the message of MessageComplete", &message, &response.message);
            *response
        }
        Ok(ends) => case.fail(format_args!(
            "a stream ends with Usage, MessageComplete and ResponseComplete, and this one with {}",
            shown(&ends)
        )),
        Err(few) => case.fail(format_args!("the stream has only these events: {few:?}")),
    };
    case.equal("the message's role", response.message.role, Role::Assistant);
    let mut grown = Grown::default();
    for event in events {
        grown.take(case, event);
    }
    grown.check(case, &response);
    response
}

/// Waits for the first event of a stream. Panics if it is not a text delta.
pub(super) async fn first_text(case: &Case, handle: &mut StreamHandle) {
    match case.soon(handle.receiver.recv()).await {
        Some(StreamEvent::TextDelta(_)) => {}
        other => case.fail(format_args!("begins with {other:?} and not with a piece of text")),
    }
}

/// The error with which a broken stream ended, and whether deltas preceded it.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) error: ProviderError,
    /// Set if the stream had deltas before the error.
    pub(super) was_shown: bool,
}

/// Checks the events of a broken stream, which must be any number of deltas and then an error. The result contains this
/// error, and a flag that is set if there were deltas.
pub(super) fn check_broken(case: &Case, mut events: Vec<StreamEvent>) -> Broken {
    let error: StreamError = match events.pop() {
        Some(StreamEvent::Error(error)) => error,
        Some(StreamEvent::ResponseComplete(response)) => {
            case.fail(format_args!("a broken stream gave an answer: {}", shown(&response)))
        }
        other => case.fail(format_args!(
            "a broken stream ends with an error, and this one with {}",
            shown(&other)
        )),
    };
    let not_delta = events.iter().find(|event| !event.is_delta());
    if let Some(event) = not_delta {
        case.fail(format_args!("only deltas come before an error, and here {}", shown(event)));
    }
    Broken { error: error.into(), was_shown: !events.is_empty() }
}

/// A response that is assembled from the deltas of a stream.
#[derive(Debug, Default)]
struct Grown {
    text: String,
    thinking: String,
    signature: Option<String>,
    calls: Vec<GrownCall>,
}

#[derive(Debug)]
struct GrownCall {
    id: String,
    name: String,
    arguments: String,
    ended: bool,
    whole: Option<Value>,
}

impl Grown {
    /// Adds an event to the response. Panics if the event must not come at this point.
    fn take(&mut self, case: &Case, event: StreamEvent) {
        match event {
            StreamEvent::TextDelta(piece) => self.text.push_str(&piece),
            StreamEvent::ThinkingDelta(piece) => self.thinking.push_str(&piece),
            // Unlike other deltas, this event has the whole signature and not a part of it.
            StreamEvent::SignatureDelta(signature) => self.signature = Some(signature),
            StreamEvent::ToolUseStart { id, name } => {
                case.holds(!id.is_empty(), "a tool call has no id");
                let is_known = self.calls.iter().any(|call| call.id == id);
                case.holds(!is_known, format_args!("the tool call `{id}` begins twice"));
                let arguments = String::new();
                self.calls.push(GrownCall { id, name, arguments, ended: false, whole: None });
            }
            StreamEvent::ToolUseInputDelta { id, delta } => {
                let call = self.call(case, &id);
                case.holds(!call.ended, format_args!("arguments after the end of `{id}`"));
                call.arguments.push_str(&delta);
            }
            StreamEvent::ToolUseEnd { id } => {
                let call = self.call(case, &id);
                case.holds(!call.ended, format_args!("the tool call `{id}` ends twice"));
                call.ended = true;
            }
            StreamEvent::ToolUse { id, name, input } => {
                let call = self.call(case, &id);
                case.holds(call.ended, format_args!("ToolUse before the ToolUseEnd of `{id}`"));
                case.holds(call.whole.is_none(), format_args!("ToolUse of `{id}` comes twice"));
                case.equal("the name in ToolUse", &name, &call.name);
                call.whole = Some(input);
            }
            other => case.fail(format_args!(
                "only deltas come before the end of a stream, and here {}",
                shown(&other)
            )),
        }
    }

    /// Returns the tool call with this id. Panics if it has not started.
    fn call(&mut self, case: &Case, id: &str) -> &mut GrownCall {
        let call = self.calls.iter_mut().find(|call| call.id == id);
        match call {
            Some(call) => call,
            None => case.fail(format_args!("the tool call `{id}` goes on and has not begun")),
        }
    }

    /// Checks that the assembled response equals the final response.
    fn check(&self, case: &Case, response: &CompletionResponse) {
        let message = &response.message;
        case.equal("the text of all deltas", &self.text, &message.text());
        case.equal("the reasoning of all deltas", &self.thinking, &thinking(message));
        if let Some(grown) = self.signature.as_deref() {
            case.equal("the last signature", Some(grown), signature(message));
        }
        let calls: Vec<ToolUseRef<'_>> = message.tool_uses().collect();
        let ids: Vec<&str> = calls.iter().map(|call| call.id).collect();
        let grown: Vec<&str> = self.calls.iter().map(|call| call.id.as_str()).collect();
        case.equal("the tool calls of all deltas", grown, ids);
        for (grown, call) in self.calls.iter().zip(calls) {
            grown.check(case, call);
        }
    }
}

impl GrownCall {
    /// Checks that the assembled tool call equals the call in the final response.
    fn check(&self, case: &Case, call: ToolUseRef<'_>) {
        let id = &self.id;
        case.equal("the name in ToolUseStart", self.name.as_str(), call.name);
        case.holds(self.ended, format_args!("the tool call `{id}` has no ToolUseEnd"));
        if let Some(raw) = ToolCall::invalid_json(call.input) {
            case.equal("the arguments of all deltas", self.arguments.as_str(), raw);
            let what = "ToolUse came for arguments that are no JSON: nobody must run that call";
            case.holds(self.whole.is_none(), what);
            return;
        }
        let parsed = match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        };
        case.equal("the arguments of all deltas", parsed.ok().as_ref(), Some(call.input));
        case.equal("the arguments in ToolUse", self.whole.as_ref(), Some(call.input));
    }
}
