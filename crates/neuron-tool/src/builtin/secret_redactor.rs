//! [`SecretRedactor`], which redacts secrets in the results of tools.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use neuron_types::secret_formats::{secrets_in, secrets_in_field};
use neuron_types::{
    ContentItem, EmbeddedResource, ResourceLink, ToolContext, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::{Map, Value};

use crate::middleware::{Next, ToolCall, ToolMiddleware};
use crate::text;

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";

/// Redacts secrets in the results of tools. The texts, resources, links, structured content and errors of a result are
/// searched.
///
/// The middleware detects the formats of [`secret_formats`](neuron_types::secret_formats), such as private keys, the
/// keys of many vendors, JSON Web Tokens, passwords in URLs, and values with names such as `api_key`. Add other secrets
/// by value or by the name of their environment variable. Secrets that a tool encodes, for example in Base64, are not
/// detected.
///
/// Add this middleware after middleware that truncates or stores outputs, such as
/// [`OutputFormatter`](super::OutputFormatter) and [`OutputSpiller`](super::OutputSpiller). The redactor then receives
/// whole outputs. In a truncated output, a part of a secret may remain, which cannot be detected. Texts that the outer
/// middleware adds are not redacted.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::{OutputFormatter, SecretRedactor};
///
/// let redactor = SecretRedactor::new()
///     .with_secret("correct horse battery staple")
///     .with_environment_variable("DATABASE_URL");
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(OutputFormatter::new(10_000));
/// registry.add_middleware(redactor);
/// ```
#[derive(Clone, Default)]
pub struct SecretRedactor {
    /// The secret values, each also in its escaped form inside a JSON string. The longest is first, because a secret
    /// may contain another secret.
    secrets: Vec<String>,
    /// Names of the environment variables whose values are secret.
    variables: Vec<String>,
}

impl SecretRedactor {
    /// Creates a redactor for secrets in known formats.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also redacts this value. An empty value is ignored.
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<String>) -> Self {
        add(&mut self.secrets, &secret.into());
        self
    }

    /// Also redacts the value of an environment variable, from the call's [`environment`](ToolContext::environment).
    #[must_use]
    pub fn with_environment_variable(mut self, name: impl Into<String>) -> Self {
        self.variables.push(name.into());
        self
    }

    /// Returns the secrets to redact in a call, including the values of the environment variables.
    fn secrets(&self, ctx: &ToolContext) -> Vec<String> {
        let mut secrets = self.secrets.clone();
        for value in self.variables.iter().filter_map(|name| ctx.environment.get(name)) {
            add(&mut secrets, value);
        }
        secrets
    }
}

impl ToolMiddleware for SecretRedactor {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let result = next.run(call, ctx).await;
            let secrets = self.secrets(ctx);
            match result {
                Ok(output) => Ok(redact_output(output, &secrets)),
                Err(error) => Err(redact_error(error, &secrets)),
            }
        })
    }
}

/// Shows the names of the variables and omits the secrets.
impl fmt::Debug for SecretRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretRedactor").field("variables", &self.variables).finish_non_exhaustive()
    }
}

/// Adds a secret and its escaped form inside a JSON string. Keeps the longest secrets first.
fn add(secrets: &mut Vec<String>, secret: &str) {
    // In JSON text, some characters of the secret are escaped.
    let json = Value::from(secret).to_string();
    let inside_json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default();
    for form in [secret, inside_json] {
        if !form.is_empty() && !secrets.iter().any(|known| known == form) {
            secrets.push(form.to_owned());
        }
    }
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
}

/// Redacts the given secrets and all secrets in known formats in a text.
fn redact(text: String, secrets: &[String]) -> String {
    let text = without(text, secrets);
    without_ranges(&text, secrets_in(&text)).unwrap_or(text)
}

/// Redacts the text of a JSON field. The name of the field may show that its value is a secret.
fn redact_field(name: &str, text: String, secrets: &[String]) -> String {
    let text = without(text, secrets);
    without_ranges(&text, secrets_in_field(name, &text)).unwrap_or(text)
}

/// Replaces the given secrets in a text.
fn without(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| match text.contains(secret) {
        true => text.replace(secret, REDACTED),
        false => text,
    })
}

/// Replaces ranges of a text. Returns `None` if there are no ranges, because most texts need no copy.
fn without_ranges(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> Option<String> {
    let (mut redacted, mut end) = (String::new(), 0);
    for range in ranges {
        redacted.push_str(text.get(end..range.start).unwrap_or_default());
        redacted.push_str(REDACTED);
        end = range.end;
    }
    if end == 0 {
        return None;
    }
    redacted.push_str(text.get(end..).unwrap_or_default());
    Some(redacted)
}

/// Redacts the texts and the structured content of an output.
fn redact_output(mut output: ToolOutput, secrets: &[String]) -> ToolOutput {
    for item in &mut output.content {
        for text in texts_mut(item) {
            *text = redact(std::mem::take(text), secrets);
        }
    }
    output.structured_content =
        output.structured_content.map(|value| redact_json("", value, secrets));
    output
}

/// Returns all texts of an item that can be redacted. Binary content is not included.
fn texts_mut(item: &mut ContentItem) -> Vec<&mut String> {
    match item {
        ContentItem::Text(text) => vec![text],
        ContentItem::Resource { resource } => {
            let EmbeddedResource { uri, mime_type, text, .. } = resource;
            [uri].into_iter().chain(mime_type).chain(text).collect()
        }
        ContentItem::ResourceLink { resource } => {
            let ResourceLink { uri, name, title, description, mime_type, .. } = resource;
            [uri, name].into_iter().chain(title).chain(description).chain(mime_type).collect()
        }
        ContentItem::Audio { media_type, .. } => vec![media_type],
        _ => Vec::new(),
    }
}

/// Redacts the strings, the field names and the numbers in the JSON value of a field. `field` is empty if the value is
/// not in an object.
fn redact_json(field: &str, value: Value, secrets: &[String]) -> Value {
    match value {
        Value::String(text) => Value::String(redact_field(field, text, secrets)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| redact_json("", item, secrets)).collect())
        }
        Value::Object(fields) => {
            let redacted = fields.into_iter().map(|(name, value)| {
                let value = redact_json(&name, value, secrets);
                (redact(name, secrets), value)
            });
            Value::Object(redacted.collect::<Map<_, _>>())
        }
        // A number can be a secret, for example a PIN. A redacted number becomes a string.
        Value::Number(number) => match redact(number.to_string(), secrets) {
            text if text == number.to_string() => Value::Number(number),
            text => Value::String(text),
        },
        other => other,
    }
}

/// Redacts the text of an error. An error that contains a secret is replaced with its redacted text.
fn redact_error(error: ToolError, secrets: &[String]) -> ToolError {
    text::of_error(
        error,
        |text| redact(text, secrets),
        |source| (!is_clean(source, secrets)).then(|| redact(source.to_string(), secrets)),
    )
}

/// Returns `true` if the `Display` and `Debug` texts of an error and of its sources contain no secret.
fn is_clean(error: &(dyn Error + 'static), secrets: &[String]) -> bool {
    let is_clean = |text: String| redact(text.clone(), secrets) == text;
    is_clean(error.to_string())
        // Check the `Debug` text too, because logs may show it.
        && is_clean(format!("{error:?}"))
        && error.source().is_none_or(|source| self::is_clean(source, secrets))
}
