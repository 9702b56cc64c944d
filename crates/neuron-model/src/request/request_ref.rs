//! A model request with borrowed parts.

use serde::Serialize;
use serde_json::Value;

use crate::{
    CacheControl, CompletionRequest, ContextManagement, History, Message, ReasoningEffort,
    ResponseFormat, Role, SystemPrompt, ThinkingConfig, ToolChoice, ToolDefinition,
};

/// A [`CompletionRequest`] with borrowed parts.
///
/// An agent calls the model with this type, so that the conversation and the tools are not copied for each call. To
/// change a field, create a new value with struct update syntax. The type is `Copy`.
///
/// It serialises to the same JSON as a [`CompletionRequest`]. The additional fields [`cache`](Self::cache) and
/// [`history`](Self::history) are not serialised.
///
/// # Example
///
/// ```
/// use neuron_model::{CompletionRequest, Message, RequestRef, ToolChoice};
///
/// let request = CompletionRequest { messages: vec![Message::user("Hello")], ..Default::default() };
/// let request = request.view();
/// let without_tools = RequestRef { tool_choice: Some(&ToolChoice::None), ..request };
/// assert_eq!(without_tools.messages, request.messages);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RequestRef<'a> {
    /// Name of the model. Empty means the provider's default.
    pub model: &'a str,
    /// The conversation so far.
    pub messages: &'a [Message],
    /// Instructions for the whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<&'a SystemPrompt>,
    /// The tools that the model may call.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tools: &'a [ToolDefinition],
    /// Maximum number of tokens of the response. `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Sampling temperature. `None` means the provider's default. Some models reject a temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Probability mass of nucleus sampling, from 0 to 1. `None` means the provider's default. Some models reject this
    /// option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Texts at which the model stops generating.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub stop_sequences: &'a [String],
    /// Constraint on the model's tool calls. `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<&'a ToolChoice>,
    /// The format of the response. `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<&'a ResponseFormat>,
    /// Configuration of the model's reasoning before the response. `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingConfig>,
    /// The amount of reasoning. `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Provider-specific fields, merged deeply into the JSON body of the request. An array `tools` inside `extra` is
    /// appended to the tools of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<&'a Value>,
    /// Edits of the conversation that the provider makes on its server. `None` means no edits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_management: Option<&'a ContextManagement>,
    /// Cache breakpoint at the end of the conversation. `None` means no breakpoint.
    ///
    /// With a breakpoint, the provider can read the conversation from its cache at the next request. The breakpoint
    /// does not change the response. Providers with automatic caching ignore this field. The field is not serialised.
    #[serde(skip)]
    pub cache: Option<CacheControl>,
    /// The key that identifies the conversation of a run, for code that caches data about earlier messages across
    /// requests.
    ///
    /// The key is set by [`with_history`](Self::with_history) and returned by [`history_key`](Self::history_key). The
    /// field is not serialised.
    #[serde(skip)]
    pub history: Option<History<'a>>,
}

impl<'a> RequestRef<'a> {
    /// Returns the model of the request, or `default` if the request names none.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::RequestRef;
    ///
    /// assert_eq!(RequestRef { model: "m", ..Default::default() }.model_or("n"), "m");
    /// assert_eq!(RequestRef::default().model_or("n"), "n");
    /// ```
    #[must_use]
    pub fn model_or(&self, default: &'a str) -> &'a str {
        if self.model.is_empty() { default } else { self.model }
    }

    /// Splits the conversation after the system messages at its beginning, for a vendor that accepts them only as a part
    /// of the system prompt. Returns these messages and all other messages.
    #[must_use]
    pub fn split_leading_system(&self) -> (&'a [Message], &'a [Message]) {
        let first = self.messages.iter().position(|message| message.role != Role::System);
        self.messages.split_at(first.unwrap_or(self.messages.len()))
    }

    /// Copies the request. The fields [`cache`](Self::cache) and [`history`](Self::history) are lost, because an owned
    /// request does not have them.
    #[must_use]
    pub fn to_request(&self) -> CompletionRequest {
        CompletionRequest {
            model: self.model.to_owned(),
            messages: self.messages.to_vec(),
            system: self.system.cloned(),
            tools: self.tools.to_vec(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            stop_sequences: self.stop_sequences.to_vec(),
            tool_choice: self.tool_choice.cloned(),
            response_format: self.response_format.cloned(),
            thinking: self.thinking,
            reasoning_effort: self.reasoning_effort,
            extra: self.extra.cloned(),
            context_management: self.context_management.cloned(),
        }
    }
}

impl CompletionRequest {
    /// Returns a borrowed form of the request, without [`cache`](RequestRef::cache) and
    /// [`history`](RequestRef::history).
    #[must_use]
    pub fn view(&self) -> RequestRef<'_> {
        // Name all fields, so that the compiler reports a missing field.
        let Self {
            model,
            messages,
            system,
            tools,
            max_tokens,
            temperature,
            top_p,
            stop_sequences,
            tool_choice,
            response_format,
            thinking,
            reasoning_effort,
            extra,
            context_management,
        } = self;
        RequestRef {
            model,
            messages,
            system: system.as_ref(),
            tools,
            max_tokens: *max_tokens,
            temperature: *temperature,
            top_p: *top_p,
            stop_sequences,
            tool_choice: tool_choice.as_ref(),
            response_format: response_format.as_ref(),
            thinking: *thinking,
            reasoning_effort: *reasoning_effort,
            extra: extra.as_ref(),
            context_management: context_management.as_ref(),
            cache: None,
            history: None,
        }
    }
}

impl<'a> From<&'a CompletionRequest> for RequestRef<'a> {
    fn from(request: &'a CompletionRequest) -> Self {
        request.view()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ContextEdit, SystemBlock};

    fn full() -> CompletionRequest {
        CompletionRequest {
            model: "m".into(),
            messages: vec![Message::user("hi")],
            system: Some(vec![SystemBlock { text: "s".into(), cache_control: None }].into()),
            tools: vec![ToolDefinition {
                name: "t".into(),
                title: None,
                description: "d".into(),
                input_schema: json!({ "type": "object" }),
                output_schema: None,
                annotations: None,
                cache_control: None,
            }],
            max_tokens: Some(1),
            temperature: Some(0.5),
            top_p: Some(0.25),
            stop_sequences: vec!["x".into()],
            tool_choice: Some(ToolChoice::Required),
            response_format: Some(ResponseFormat::JsonObject),
            thinking: Some(ThinkingConfig::Adaptive),
            reasoning_effort: Some(ReasoningEffort::Low),
            extra: Some(json!({ "a": 1 })),
            context_management: Some(ContextManagement {
                edits: vec![ContextEdit::Compact { strategy: "c".into() }],
            }),
        }
    }

    #[test]
    fn only_system_messages_at_the_beginning_are_split_off() {
        let [system, user] = [Message::system("s"), Message::user("u")];
        for (messages, leading) in [
            (vec![], 0),
            (vec![user.clone()], 0),
            (vec![system.clone(), system.clone()], 2),
            (vec![system.clone(), user.clone(), system.clone()], 1),
        ] {
            let request = RequestRef { messages: &messages, ..Default::default() };
            assert_eq!(request.split_leading_system(), messages.split_at(leading));
        }
    }

    #[test]
    fn view_serialises_like_its_request_and_converts_back() {
        for request in [CompletionRequest::default(), full()] {
            let view = request.view();
            let bytes = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::to_string(&view).unwrap(), bytes);
            assert_eq!(view.to_request(), request);
            assert_eq!(RequestRef::from(&request), view);
        }
    }
}
