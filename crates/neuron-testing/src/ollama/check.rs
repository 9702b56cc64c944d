//! What Ollama refuses. Its server is written in Go and reads a body into typed structures, so that
//! most refusals are those of Go's JSON decoder; fields that it does not know it takes.

use serde_json::Value;

use super::ApiError;
use crate::base64;

/// Checks the body of a request to `/api/chat` as Ollama does.
///
/// # Errors
///
/// A 400 for the first rule that is broken; a 500 for an option of a wrong type, as Ollama has it.
///
/// # Example
///
/// ```
/// use neuron_testing::ollama::check_chat_request;
/// use serde_json::json;
///
/// let mut body = json!({
///     "model": "llama3.2",
///     "messages": [{"role": "user", "content": "hi"}],
/// });
/// assert!(check_chat_request(&body).is_ok());
///
/// body["messages"][0]["content"] = json!(["hi"]);
/// let error = check_chat_request(&body).unwrap_err();
/// assert_eq!(
///     error.message,
///     "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type \
///      string"
/// );
/// ```
pub fn check_chat_request(body: &Value) -> Result<(), ApiError> {
    let chat = Place { path: "ChatRequest".into(), value: body };
    chat.object("api.ChatRequest")?;
    chat.get("model").string()?;
    chat.get("stream").boolean()?;
    for message in chat.get("messages").list("[]api.Message")? {
        check_message(&message)?;
    }
    for tool in chat.get("tools").list("api.Tools")? {
        check_tool(&tool)?;
    }
    check_think(chat.get("think").value)?;
    check_keep_alive(chat.get("keep_alive").value)?;
    check_required_model(body)?;
    check_format(chat.get("format").value)?;
    if let Some(count) = body.get("top_logprobs").and_then(Value::as_i64)
        && !(0..=20).contains(&count)
    {
        return Err(ApiError::invalid_request("top_logprobs must be between 0 and 20"));
    }
    check_options(&chat.get("options"))
}

/// Checks the body of a request to `/api/embed` as Ollama does.
///
/// # Errors
///
/// A 400 for the first rule that is broken; a 500 for an option of a wrong type, as Ollama has it.
pub fn check_embed_request(body: &Value) -> Result<(), ApiError> {
    let embed = Place { path: "EmbedRequest".into(), value: body };
    embed.object("api.EmbedRequest")?;
    embed.get("model").string()?;
    embed.get("truncate").boolean()?;
    check_keep_alive(embed.get("keep_alive").value)?;
    check_required_model(body)?;
    match embed.get("input").value {
        Value::Null | Value::String(_) => {}
        Value::Array(texts) if texts.iter().all(Value::is_string) => {}
        _ => return Err(ApiError::invalid_request("invalid input type")),
    }
    check_options(&embed.get("options"))
}

fn check_required_model(body: &Value) -> Result<(), ApiError> {
    match body.get("model").and_then(Value::as_str) {
        None | Some("") => Err(ApiError::invalid_request("model is required")),
        Some(_) => Ok(()),
    }
}

fn check_message(message: &Place<'_>) -> Result<(), ApiError> {
    message.object("api.Message")?;
    for key in ["role", "content", "thinking", "tool_name", "tool_call_id"] {
        message.get(key).string()?;
    }
    let role = message.get("role").value.as_str().unwrap_or_default().to_lowercase();
    if !["system", "user", "assistant", "tool"].contains(&role.as_str()) {
        return Err(ApiError::invalid_request(format!(
            "invalid role: \"{role}\" (must be \"system\", \"user\", \"assistant\", or \"tool\")"
        )));
    }
    for image in message.get("images").list("[]api.ImageData")? {
        image.string()?;
        let text = image.value.as_str().unwrap_or_default();
        if let Some(at) = base64::first_error(text) {
            let text = format!("illegal base64 data at input byte {at}");
            return Err(ApiError::invalid_request(text));
        }
    }
    for call in message.get("tool_calls").list("[]api.ToolCall")? {
        call.object("api.ToolCall")?;
        call.get("id").string()?;
        let function = call.get("function");
        function.object("api.ToolCallFunction")?;
        function.get("name").string()?;
        function.get("arguments").object("api.ToolCallFunctionArguments")?;
    }
    Ok(())
}

fn check_tool(tool: &Place<'_>) -> Result<(), ApiError> {
    tool.object("api.Tool")?;
    tool.get("type").string()?;
    let function = tool.get("function");
    function.object("api.ToolFunction")?;
    function.get("name").string()?;
    function.get("description").string()?;
    function.get("parameters").object("api.ToolFunctionParameters")
}

fn check_think(think: &Value) -> Result<(), ApiError> {
    match think {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::String(level) if ["high", "medium", "low", "max"].contains(&level.as_str()) => {
            Ok(())
        }
        Value::String(level) => Err(ApiError::invalid_request(format!(
            "invalid think value: \"{level}\" (must be \"high\", \"medium\", \"low\", \"max\", \
             true, or false)"
        ))),
        _ => Err(ApiError::invalid_request(
            "think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or \
             false)",
        )),
    }
}

fn check_keep_alive(keep_alive: &Value) -> Result<(), ApiError> {
    match keep_alive {
        Value::Null | Value::Number(_) => Ok(()),
        Value::String(text) => match duration_error(text) {
            Some(what) => {
                Err(ApiError::invalid_request(format!("time: {what} duration \"{text}\"")))
            }
            None => Ok(()),
        },
        other => {
            Err(ApiError::invalid_request(format!("unsupported type: '{}'", go_kind_of(other))))
        }
    }
}

/// What Go says of a text that is no duration: numbers with units, or a bare zero.
fn duration_error(text: &str) -> Option<&'static str> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some("invalid");
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if after.len() == rest.len() {
            return Some("invalid");
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, later) = after.split_at(end);
        match unit {
            "" => return Some("missing unit in"),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = later,
            _ => return Some("unknown unit in"),
        }
    }
    None
}

fn check_format(format: &Value) -> Result<(), ApiError> {
    match format {
        Value::Null | Value::Object(_) => Ok(()),
        Value::String(text) if text.is_empty() || text == "json" => Ok(()),
        _ => Err(ApiError::invalid_request(
            "invalid format: expected \"json\" or a valid JSON Schema object",
        )),
    }
}

/// The options whose types are known. Ollama takes all others and warns in its log.
fn check_options(options: &Place<'_>) -> Result<(), ApiError> {
    options.object("map[string]interface {}")?;
    for (key, value) in options.value.as_object().into_iter().flatten() {
        let (fits, kind) = match key.as_str() {
            "num_ctx" | "num_batch" | "num_gpu" | "main_gpu" | "num_thread" | "num_keep"
            | "seed" | "num_predict" | "top_k" | "repeat_last_n" => {
                (value.as_f64().is_some_and(|number| number.fract() == 0.0), "integer")
            }
            "top_p" | "min_p" | "typical_p" | "temperature" | "repeat_penalty"
            | "presence_penalty" | "frequency_penalty" => (value.is_number(), "float32"),
            "stop" => (value.is_array(), "array"),
            _ => continue,
        };
        if !fits {
            return Err(ApiError::new(500, format!("option \"{key}\" must be of type {kind}")));
        }
    }
    Ok(())
}

/// A value in a request, with the path that Go would name.
struct Place<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Place<'a> {
    /// A field; one that is missing is null, which Go takes for every type.
    fn get(&self, key: &str) -> Place<'a> {
        let value = self.value.get(key).unwrap_or(&Value::Null);
        Place { path: format!("{}.{key}", self.path), value }
    }

    fn string(&self) -> Result<(), ApiError> {
        self.expect(self.value.is_string(), "string")
    }

    fn boolean(&self) -> Result<(), ApiError> {
        self.expect(self.value.is_boolean(), "bool")
    }

    fn object(&self, kind: &str) -> Result<(), ApiError> {
        self.expect(self.value.is_object(), kind)
    }

    fn list(&self, kind: &str) -> Result<Vec<Place<'a>>, ApiError> {
        self.expect(self.value.is_array(), kind)?;
        let list = self.value.as_array().into_iter().flatten();
        Ok(list.map(|value| Place { path: self.path.clone(), value }).collect())
    }

    fn expect(&self, fits: bool, kind: &str) -> Result<(), ApiError> {
        if fits || self.value.is_null() {
            return Ok(());
        }
        let got = go_kind_of(self.value);
        Err(ApiError::invalid_request(match self.path.contains('.') {
            true => format!(
                "json: cannot unmarshal {got} into Go struct field {} of type {kind}",
                self.path
            ),
            false => format!("json: cannot unmarshal {got} into Go value of type {kind}"),
        }))
    }
}

fn go_kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
