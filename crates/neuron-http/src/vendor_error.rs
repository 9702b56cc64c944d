//! Parses error bodies in the formats of many vendors ([`VendorError`]).

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use neuron_model::ProviderError;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::fault::{Fault, without_quotation};
use crate::framing::without_mark;
use crate::named_delay::named_delay;
use crate::rejection::describe;
use crate::{Rejection, read_frame};

/// An error that a vendor sent in a body or in an event.
///
/// These formats are parsed for every vendor, because even servers with the same API send errors in different formats:
///
/// | format | from |
/// |---|---|
/// | `{"error": {"message", "type", "code"}}` | OpenAI, Anthropic, Azure, Groq, vLLM, llama.cpp |
/// | `[{"error": {"code", "message", "status"}}]` | Gemini |
/// | `{"error": "text"}`, with `code` or `error_type` beside it | Ollama, Fireworks, xAI, Text Generation Inference |
/// | `{"message", "type", "code"}` | Mistral, Cerebras, SGLang, older vLLM, Cohere, Bedrock |
/// | `{"error_code", "message"}` | Databricks |
/// | `{"errors": [{"code", "message"}]}` | Cloudflare |
/// | `{"detail": …}` | Mistral (401), FastAPI |
/// | `{"base_resp": {"status_code", "status_msg"}}`, unless the code is 0 | MiniMax |
///
/// `code` may be a text, a number, or absent. OpenRouter sends the error of the upstream server in `metadata.raw`,
/// which is appended to the message.
///
/// # Example
///
/// ```
/// use neuron_http::VendorError;
///
/// let body = br#"[{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]"#;
/// let error = VendorError::find_in(body).unwrap_or_default();
/// assert_eq!((&*error.name(), error.message()), ("INVALID_ARGUMENT", "no"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct VendorError {
    /// The vendor's `type` of the error, such as `rate_limit_error`.
    kind: Option<String>,
    /// The vendor's `code` of the error, a text or a number.
    code: Option<Value>,
    /// Further codes, such as `details.error_code`, `error_code` and `status`, which are more precise than the type.
    details: Vec<String>,
    /// The vendor's message about the error.
    message: Option<String>,
    /// The request id, if the body contains one.
    request_id: Option<String>,
    /// Text whose words decide the class of the error. `None` if the message decides it.
    wording: Option<String>,
}

impl VendorError {
    /// Creates an error from a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// Creates an error from a body without a known error format. `shown` becomes the message. The class of the error
    /// is derived from the text `wording`.
    pub(crate) fn foreign(shown: String, wording: String) -> Self {
        Self { wording: Some(wording), ..Self::new(shown) }
    }

    /// Finds the error in the JSON of a body or an event. Returns `None` if the JSON contains no error.
    #[must_use]
    pub fn find(json: Value) -> Option<Self> {
        let mut fields = match json {
            Value::Array(errors) => return errors.into_iter().next().and_then(Self::find),
            Value::Object(fields) => fields,
            _ => return None,
        };
        let request_id = fields.get_mut("request_id").map(Value::take).and_then(text);
        let found = fields.get_mut("error").map(Value::take).and_then(Self::read);
        let found = found.map(|error| error.with_siblings(&mut fields));
        let found = found.or_else(|| {
            let first = fields.get_mut("errors")?.as_array_mut()?.first_mut()?.take();
            Self::read(first)
        });
        let found = found.or_else(|| Self::base_resp(fields.get("base_resp")?));
        let found = found.or_else(|| {
            let says = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
            (says("message") || says("detail")).then(|| Self::read(Value::Object(fields))).flatten()
        });
        found.map(|error| Self { request_id, ..error })
    }

    /// Finds the error in the bytes of a body or an event. Returns `None` if the bytes are not JSON, or contain no
    /// error.
    #[must_use]
    pub fn find_in(data: &[u8]) -> Option<Self> {
        Self::find(read_frame(data).ok()?)
    }

    /// Finds the error in the first JSON value of the bytes. Returns `None` if there is none.
    pub(crate) fn find_first(data: &[u8]) -> Option<Self> {
        let mut values = serde_json::Deserializer::from_slice(without_mark(data)).into_iter();
        Self::find(values.next()?.ok()?)
    }

    /// Parses an event that reports an error. Returns `None` if the event contains no error. The event's own `type` is
    /// ignored, because it is not the type of the error.
    #[must_use]
    pub fn of_event(data: &[u8]) -> Option<Self> {
        let mut json: Value = read_frame(data).ok()?;
        let nested = json.get_mut("error").map(Value::take).and_then(Self::read);
        nested.or_else(|| Some(Self { kind: None, ..Self::read(json)? }))
    }

    /// Parses the value of an `error` field. Returns `None` if there is no error, because the value is null, an empty
    /// text, or neither a text nor an object.
    #[must_use]
    pub fn read(json: Value) -> Option<Self> {
        let mut fields = match json {
            Value::Object(fields) => fields,
            Value::String(message) if !message.is_empty() => return Some(Self::new(message)),
            _ => return None,
        };
        // An object of an unknown format is shown as JSON.
        let is_known =
            ["message", "detail", "type", "code"].iter().any(|key| fields.contains_key(*key));
        if !is_known && !fields.is_empty() {
            let json = Value::Object(fields);
            return Some(Self::foreign(json.to_string(), own_texts(&json)));
        }
        let mut take = |key: &str| fields.get_mut(key).map(Value::take);
        let kind = take("type").and_then(text).filter(|kind| kind != "error");
        let code = take("code").filter(|code| !code.is_null());
        let mut details = Vec::new();
        // `details.error_code`, of Anthropic's spending limits, Databricks and Google.
        let of_details =
            take("details").and_then(|mut details| Some(details.get_mut("error_code")?.take()));
        let words = [of_details, take("error_code"), take("status")];
        details.extend(words.into_iter().flatten().filter_map(|word| match word {
            Value::String(word) => Some(word),
            _ => None,
        }));
        let json = take("message").or_else(|| take("detail")).unwrap_or_default();
        let mut wording = Some(own_texts(&json));
        let mut message = text(json);
        if let Some(upstream) =
            take("metadata").and_then(|mut data| Some(data.get_mut("raw")?.take()))
        {
            let upstream = Self::upstream(upstream);
            details.extend(upstream.code.and_then(text));
            details.extend(upstream.kind);
            wording = join(wording, upstream.wording);
            message = join(message, upstream.message);
        }
        Some(Self { kind, code, details, message, wording, ..Self::default() })
    }

    /// Adds `code` and `error_type` from the object around the `error` field, if the error has none.
    fn with_siblings(mut self, fields: &mut Map<String, Value>) -> Self {
        let mut take = |key: &str| fields.get_mut(key).map(Value::take);
        self.code = self.code.or_else(|| take("code").filter(|code| !code.is_null()));
        self.kind = self.kind.or_else(|| take("error_type").and_then(text));
        self
    }

    /// Parses MiniMax's `base_resp`. Returns `None` for the code 0, which successful responses have.
    fn base_resp(json: &Value) -> Option<Self> {
        let code = json.get("status_code")?.as_i64().filter(|code| *code != 0)?;
        let message = json.get("status_msg").cloned().and_then(text);
        // The prefix separates MiniMax's numbers from equal numbers of other vendors.
        let details = vec![format!("base_resp {code}")];
        Some(Self { code: Some(code.into()), details, message, ..Self::default() })
    }

    /// Parses the error of an upstream server, which is often JSON inside a string.
    fn upstream(raw: Value) -> Self {
        let parsed = raw.as_str().and_then(|raw| serde_json::from_str(raw).ok());
        let found = Self::find(parsed.unwrap_or_else(|| raw.clone()));
        found.unwrap_or_else(|| Self {
            wording: Some(own_texts(&raw)),
            message: text(raw),
            ..Self::default()
        })
    }

    /// Returns the vendor's name for the error, or an empty text if there is none. The name is the first of these that
    /// exists:
    ///
    /// - a code that is a text
    /// - the type of the error
    /// - a code that is a number
    /// - another word, such as Google's `status`
    ///
    /// A code that is an HTTP status does not count.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        let code = self.code.as_ref().filter(|_| self.status().is_none());
        let number = code.filter(|code| code.is_number()).map(|code| Cow::Owned(code.to_string()));
        let words = [code.and_then(Value::as_str), self.kind.as_deref()];
        let mut words = words.into_iter().flatten();
        let named = words.next().map(Cow::Borrowed);
        let detail = || self.details.first().map(|word| Cow::Borrowed(word.as_str()));
        named.or(number).or_else(detail).unwrap_or_default()
    }

    /// Returns the message, or a text which says that the server sent none.
    #[must_use]
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("the server gives no reason")
    }

    /// Returns `true` if the message contains `text`. `text` must be in lower case, and the case of the message is
    /// ignored. Parts of the message that quote the request are ignored too.
    #[must_use]
    pub fn says(&self, text: &str) -> bool {
        self.wording().to_lowercase().contains(text)
    }

    /// Returns the request id from the body. Returns `None` if the body contains none.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Converts an error that a response with a successful status contains. The function `other` creates the error if
    /// its class is unknown.
    ///
    /// `place` is the part of the response for the error text, such as `the stream` or `the answer`.
    #[must_use]
    pub fn within(
        &self,
        place: &str,
        request_id: Option<&str>,
        other: impl FnOnce(String) -> ProviderError,
    ) -> ProviderError {
        let text = describe(&format!("in {place}"), &self.name(), self.message(), request_id);
        let error = match (self.fault(self.status()), self.status()) {
            (Some(fault), _) => fault.error(text),
            (None, Some(status)) => {
                Rejection::new(status, HeaderMap::new(), b"", Duration::ZERO).classify(text)
            }
            (None, None) => other(text),
        };
        match self.named_delay() {
            Some(delay) => error.with_retry_after(delay),
            None => error,
        }
    }

    /// Returns the text whose words decide the class of the error.
    fn wording(&self) -> &str {
        self.wording.as_deref().unwrap_or(self.message())
    }

    /// Returns the delay before a retry that the vendor's own words name.
    pub(crate) fn named_delay(&self) -> Option<Duration> {
        named_delay(&without_quotation(self.wording()))
    }

    /// Converts the error into an error with this text. Returns `None` if neither the codes nor the message give its
    /// class. `status` is the HTTP status of the error.
    #[must_use]
    pub fn classify(&self, status: u16, text: String) -> Option<ProviderError> {
        Some(self.fault(Some(status))?.error(text))
    }

    /// Returns the class of the error, or `None` if it is unknown. `status` is the HTTP status of the error. Pass
    /// `None` if the response had a successful status.
    pub(crate) fn fault(&self, status: Option<u16>) -> Option<Fault> {
        let code = match &self.code {
            Some(Value::String(code)) => Some(code.as_str()),
            _ => None,
        };
        let details = self.details.iter().map(String::as_str);
        let words: Vec<&str> =
            code.into_iter().chain(details).chain(self.kind.as_deref()).collect();
        Fault::of(&words, self.wording(), status)
    }

    /// Returns the `code` of the error if it is an HTTP status from 400 to 599. Proxies put the status of the upstream
    /// server there.
    fn status(&self) -> Option<u16> {
        let code = self.code.as_ref()?;
        let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    }
}

/// Parses the value of an `error` field. A value of an unknown format is used as the message.
impl<'de> Deserialize<'de> for VendorError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        let unknown = Self::foreign(json.to_string(), own_texts(&json));
        Ok(Self::read(json).unwrap_or(unknown))
    }
}

/// Returns a value as text, or `None` for null. A value that is not a string, such as a list of invalid fields, is
/// returned as JSON.
fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Joins the texts in a value that the server wrote itself. Leaves out the quoted request in FastAPI's lists of invalid
/// fields.
fn own_texts(value: &Value) -> String {
    let join = |texts: Vec<String>| texts.join("\n");
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => join(values.iter().map(own_texts).collect()),
        Value::Object(fields) => {
            let values =
                ["error", "message", "detail", "msg"].iter().filter_map(|key| fields.get(*key));
            join(values.map(own_texts).collect())
        }
        _ => String::new(),
    }
}

/// Joins a message and its cause with a colon.
fn join(message: Option<String>, cause: Option<String>) -> Option<String> {
    match (message, cause) {
        (Some(message), Some(cause)) => Some(format!("{message}: {cause}")),
        (message, cause) => message.or(cause),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejected(body: &str) -> ProviderError {
        Rejection::new(422, HeaderMap::new(), body.as_bytes(), Duration::ZERO).error()
    }

    #[test]
    fn classify_returns_none_for_an_unknown_message() {
        let error = VendorError::new("Prompt is too long: 3 > 2").classify(400, "why".into());
        assert_eq!(error.unwrap().to_string(), "context window exceeded: why");
        assert!(VendorError::new("why").classify(400, "why".into()).is_none());
        // The status 429 is about the account.
        assert!(VendorError::new("prompt is too long").classify(429, "why".into()).is_none());
    }

    #[test]
    fn quoted_request_does_not_affect_error_class() {
        let question = "why does vLLM say prompt is too long?";
        let entry = json!({
            "type": "missing",
            "loc": ["body", "x"],
            "msg": "Field required",
            "input": {"messages": [{"content": question}]},
        });
        let list = json!([entry]);
        let python =
            format!("[{{'type': 'missing', 'msg': 'Field required', 'input': '{question}'}}]");
        let pydantic = format!(
            "1 validation error for Chat\nx\n  Field required [type=missing, input_value='{question}', input_type=str]"
        );
        let cut = format!("{{\"detail\": [{}", entry);
        for body in [
            json!({"detail": list}).to_string(),
            // Mistral.
            json!({"object": "error", "message": {"detail": list}, "type": "invalid_request_error"}).to_string(),
            json!({"error": {"message": list}}).to_string(),
            json!({"error": {"message": "Provider returned error", "metadata": {"raw": {"detail": list}}}}).to_string(),
            json!({"error": {"invalid": entry}}).to_string(),
            json!({"error": {"message": python}}).to_string(),
            json!({"message": pydantic}).to_string(),
            json!({"message": format!("bad value (input={question})")}).to_string(),
            // A body that is longer than the part that is read.
            cut,
        ] {
            let error = rejected(&body);
            assert_eq!(error.kind(), "InvalidRequest", "{body}");
            // The quotation is shown nevertheless.
            assert!(error.to_string().contains(question), "{error}");
        }
    }

    #[test]
    fn messages_of_invalid_fields_affect_error_class() {
        for body in [
            json!({"detail": [{"loc": ["body"], "msg": "prompt is too long", "input": "x"}]}),
            json!({"message": {"detail": [{"msg": "prompt is too long", "input": "x"}]}}),
            json!({"detail": ["prompt is too long"]}),
            json!({"error": {"message": "Provider returned error", "metadata": {"raw": {"detail": [{"msg": "prompt is too long"}]}}}}),
        ] {
            assert_eq!(rejected(&body.to_string()).kind(), "ContextWindowExceeded", "{body}");
        }
    }
}
