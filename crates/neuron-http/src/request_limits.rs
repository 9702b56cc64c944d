//! What a vendor rejects in a request, checked before the request is sent ([`RequestLimits`]).

use neuron_model::{
    ContentBlock, ImageSource, ProviderError, RequestRef, Role, ToolChoice, ToolDefinition,
    image_type,
};
use serde_json::Value;

use crate::inline_data;

/// The limits of a vendor for the parts of a request that most vendors limit in the same way.
///
/// No vendor accepts an empty stop sequence, or a forced call of a tool that the request does not offer. Further limits
/// are optional.
///
/// # Example
///
/// ```
/// use neuron_http::RequestLimits;
/// use neuron_model::CompletionRequest;
///
/// const LIMITS: RequestLimits = RequestLimits::new("Example").max_stop_sequences(1);
///
/// let stop_sequences = vec!["a".to_owned(), "b".to_owned()];
/// let request = CompletionRequest { stop_sequences, ..Default::default() };
/// let error = LIMITS.check(request.view()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid request: Example accepts at most 1 stop sequences, and the request has 2: leave some out"
/// );
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// Name of the vendor, for errors.
    vendor: &'static str,
    max_stop_sequences: usize,
    rejects_blank_stop_sequences: bool,
    takes_only_common_images: bool,
}

impl RequestLimits {
    /// Creates limits without optional ones. `vendor` is the vendor's name in errors.
    #[must_use]
    pub const fn new(vendor: &'static str) -> Self {
        Self {
            vendor,
            max_stop_sequences: usize::MAX,
            rejects_blank_stop_sequences: false,
            takes_only_common_images: false,
        }
    }

    /// Sets the maximum number of stop sequences. Default: no maximum.
    #[must_use]
    pub const fn max_stop_sequences(self, max_stop_sequences: usize) -> Self {
        Self { max_stop_sequences, ..self }
    }

    /// Rejects stop sequences of white space.
    #[must_use]
    pub const fn without_blank_stop_sequences(self) -> Self {
        Self { rejects_blank_stop_sequences: true, ..self }
    }

    /// Rejects images of users whose type is not accepted by [all vendors](image_type).
    #[must_use]
    pub const fn only_common_images(self) -> Self {
        Self { takes_only_common_images: true, ..self }
    }

    /// Checks a request, before its tools are [renamed](crate::ToolNames::rename). Fields that
    /// [`RequestRef::extra`] adds are not checked.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] for the first part of the request that breaks a limit. The error says how to
    /// change the request.
    pub fn check(&self, request: RequestRef<'_>) -> Result<(), ProviderError> {
        let broken = self
            .broken_by_stop_sequences(request.stop_sequences)
            .or_else(|| broken_by_choice(request))
            .or_else(|| self.broken_by_images(request));
        broken.map_or(Ok(()), |reason| Err(ProviderError::InvalidRequest(reason)))
    }

    fn broken_by_stop_sequences(&self, sequences: &[String]) -> Option<String> {
        let Self { vendor, max_stop_sequences: most, .. } = self;
        if sequences.len() > *most {
            return Some(format!(
                "{vendor} accepts at most {most} stop sequences, and the request has {}: leave some out",
                sequences.len()
            ));
        }
        if sequences.iter().any(String::is_empty) {
            return Some("a stop sequence is empty: leave it out".to_owned());
        }
        let has_blank = sequences.iter().any(|sequence| sequence.trim().is_empty());
        (has_blank && self.rejects_blank_stop_sequences).then(|| {
            format!(
                "{vendor} accepts no stop sequence of white space alone: leave it out, or add other characters"
            )
        })
    }

    fn broken_by_images(&self, request: RequestRef<'_>) -> Option<String> {
        if !self.takes_only_common_images {
            return None;
        }
        let users = request.messages.iter().filter(|message| message.role == Role::User);
        let mut kinds = users.flat_map(|message| &message.content).filter_map(|block| {
            let ContentBlock::Image { source } = block.portable()? else { return None };
            match source {
                ImageSource::Base64 { media_type, .. } => Some(media_type.as_str()),
                ImageSource::Url { url } => inline_data(url).map(|(kind, _)| kind),
                _ => None,
            }
        });
        let kind = kinds.find(|kind| image_type(kind).is_none())?;
        let vendor = self.vendor;
        Some(format!(
            "{vendor} does not accept an image of the type `{kind}`: send it as PNG, JPEG, GIF or WebP"
        ))
    }
}

/// Returns the reason why the choice of a tool cannot be made. Returns `None` if it can.
fn broken_by_choice(request: RequestRef<'_>) -> Option<String> {
    let chosen = match request.tool_choice? {
        ToolChoice::Required => None,
        ToolChoice::Specific { name } => Some(name),
        _ => return None,
    };
    if may_add_tools(request.extra) {
        return None;
    }
    let Some(name) = chosen.filter(|_| !request.tools.is_empty()) else {
        return request.tools.is_empty().then(|| {
            "a forced tool call needs tools: add them, or use ToolChoice::Auto".to_owned()
        });
    };
    let is_offered = |tool: &ToolDefinition| {
        tool.name == *name || tool.deferred_names().any(|deferred| deferred == name)
    };
    (!request.tools.iter().any(is_offered)).then(|| {
        format!(
            "the tool choice names `{name}`, and the request has no such tool: add it, or choose another tool"
        )
    })
}

/// Returns `true` if the fields in `extra` may offer tools, or choose one. They have the vendor's own format.
fn may_add_tools(extra: Option<&Value>) -> bool {
    // `cachedContent` of Gemini and `prompt` of OpenAI refer to tools on the server. Gemini accepts its fields in snake
    // case too.
    const FIELDS: [&str; 9] = [
        "tools",
        "toolConfig",
        "tool_config",
        "tool_choice",
        "mcp_servers",
        "functions",
        "cachedContent",
        "cached_content",
        "prompt",
    ];
    let mut fields = FIELDS.iter().filter_map(|field| extra?.get(field));
    let is_set =
        |field: &Value| !field.is_null() && field.as_array().is_none_or(|it| !it.is_empty());
    fields.any(is_set)
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, Message};
    use serde_json::json;

    use super::*;

    const STRICT: RequestLimits = RequestLimits::new("V")
        .max_stop_sequences(2)
        .without_blank_stop_sequences()
        .only_common_images();

    #[track_caller]
    fn check(limits: RequestLimits, request: &CompletionRequest, expected: Option<&str>) {
        let found = limits.check(request.view()).err();
        assert!(found.as_ref().is_none_or(|error| !error.is_retryable()), "{found:?}");
        let found = found.map(|error| error.to_string());
        assert_eq!(found, expected.map(|reason| format!("invalid request: {reason}")));
    }

    fn stops(sequences: &[&str]) -> CompletionRequest {
        let stop_sequences = sequences.iter().map(|&sequence| sequence.to_owned()).collect();
        CompletionRequest { stop_sequences, ..CompletionRequest::default() }
    }

    #[test]
    fn stop_sequences_are_limited() {
        check(STRICT, &stops(&["a", "\n\nHuman:"]), None);
        let many = "V accepts at most 2 stop sequences, and the request has 3: leave some out";
        check(STRICT, &stops(&["a", "b", "c"]), Some(many));
        check(STRICT, &stops(&["a", ""]), Some("a stop sequence is empty: leave it out"));
        let blank = "V accepts no stop sequence of white space alone: leave it out, or add other characters";
        check(STRICT, &stops(&["\n\n"]), Some(blank));

        let lenient = RequestLimits::new("V");
        check(lenient, &stops(&["\n\n", "b", "c"]), None);
        check(lenient, &stops(&[""]), Some("a stop sequence is empty: leave it out"));
    }

    #[test]
    fn forced_call_needs_its_tool() {
        let tool = |name: &str| -> ToolDefinition {
            let tool = json!({"name": name, "description": "", "input_schema": {"type": "object"}});
            serde_json::from_value(tool).unwrap()
        };
        let request = |tools: &[ToolDefinition], tool_choice| CompletionRequest {
            tools: tools.to_vec(),
            tool_choice: Some(tool_choice),
            ..CompletionRequest::default()
        };
        let specific = || ToolChoice::Specific { name: "look".into() };
        let none = "a forced tool call needs tools: add them, or use ToolChoice::Auto";
        for choice in [ToolChoice::Required, specific()] {
            check(STRICT, &request(&[], choice.clone()), Some(none));
            check(STRICT, &request(&[tool("find"), tool("look")], choice.clone()), None);
            let search = tool("search").with_deferred_tools(&[tool("look")]);
            check(STRICT, &request(&[search], choice.clone()), None);
            for extra in [
                json!({"tools": [{"type": "web_search"}]}),
                json!({"cachedContent": "cachedContents/a"}),
                // Regression cases. Gemini's fields were known in camel case alone.
                json!({"cached_content": "cachedContents/a"}),
                json!({"tool_config": {"functionCallingConfig": {"mode": "ANY"}}}),
                json!({"tool_choice": "auto"}),
            ] {
                let extra = Some(extra);
                check(STRICT, &CompletionRequest { extra, ..request(&[], choice.clone()) }, None);
            }
            for extra in [json!({"tools": []}), json!({"prompt": null}), json!([]), json!({})] {
                let request =
                    CompletionRequest { extra: Some(extra), ..request(&[], choice.clone()) };
                check(STRICT, &request, Some(none));
            }
        }
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            check(STRICT, &request(&[], choice), None);
        }
        check(STRICT, &request(&[tool("find")], ToolChoice::Required), None);
        let missing = "the tool choice names `look`, and the request has no such tool: add it, or choose another tool";
        check(STRICT, &request(&[tool("find")], specific()), Some(missing));
    }

    #[test]
    fn images_of_rare_types_are_rejected() {
        let base64 =
            |kind: &str| ImageSource::Base64 { media_type: kind.into(), data: "aGk=".into() };
        let url = |url: &str| ImageSource::Url { url: url.into() };
        let request = |source, role| CompletionRequest {
            messages: vec![Message { role, content: vec![ContentBlock::Image { source }] }],
            ..CompletionRequest::default()
        };
        for source in [
            base64("image/PNG"),
            base64("image/jpg"),
            url("https://a.example/a.bmp"),
            url("data:image/webp;base64,aGk="),
            url("data:,a"),
        ] {
            check(STRICT, &request(source, Role::User), None);
        }
        for (source, kind) in [
            (base64("image/bmp"), "image/bmp"),
            (base64("image/x-ms-bmp"), "image/x-ms-bmp"),
            (url("data:image/BMP;base64,aGk="), "image/BMP"),
        ] {
            let reason = format!(
                "V does not accept an image of the type `{kind}`: send it as PNG, JPEG, GIF or WebP"
            );
            check(STRICT, &request(source.clone(), Role::User), Some(&reason));
            check(RequestLimits::new("V"), &request(source.clone(), Role::User), None);
            // The type of an image in a response is the model's choice.
            check(STRICT, &request(source, Role::Assistant), None);
        }
    }
}
