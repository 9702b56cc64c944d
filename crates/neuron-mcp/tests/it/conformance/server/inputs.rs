//! Tools for the MCP conformance suite, which request sampling, elicitation or roots from the client.

use std::sync::Arc;

use neuron_mcp::{ElicitationRequest, ElicitationResponse, InputRequest, McpPeer, SamplingRequest};
use neuron_types::{Message, ToolDyn, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::tools::{Call, plain, tool};

pub(super) fn all() -> Vec<Arc<dyn ToolDyn>> {
    vec![
        tool("test_sampling", one_text("prompt"), |call| async move {
            let prompt = call.input["prompt"].as_str().unwrap_or_default();
            let text = sample(&call.peer, "answer", prompt).await?;
            Ok(ToolOutput::text(format!("LLM response: {text}")))
        }),
        tool("test_elicitation", one_text("message"), |call| async move {
            let message = call.input["message"].as_str().unwrap_or_default();
            let schema = form(json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }));
            let answer =
                call.peer.elicit("user", ElicitationRequest::form(message, schema)).await?;
            Ok(ToolOutput::text(format!("User response: {}", told(&answer))))
        }),
        plain("test_elicitation_sep1034_defaults", |call| completes(call, defaults())),
        plain("test_elicitation_sep1330_enums", |call| completes(call, enums())),
        plain("test_streaming_elicitation", name_is_asked),
        plain("test_missing_capability", |call| async move {
            Ok(ToolOutput::text(sample(&call.peer, "needed", "Is anybody there?").await?))
        }),
        plain("test_input_required_result_elicitation", name_is_asked),
        plain("test_input_required_result_sampling", |call| async move {
            let question = "What is the capital of France?";
            Ok(ToolOutput::text(sample(&call.peer, "capital_question", question).await?))
        }),
        plain("test_input_required_result_list_roots", |call| async move {
            let roots = call.peer.roots("client_roots").await?;
            let uris: Vec<&str> = roots.iter().map(|root| root.uri.as_str()).collect();
            Ok(ToolOutput::text(format!("roots: {}", uris.join(", "))))
        }),
        plain("test_input_required_result_request_state", confirmed),
        plain("test_input_required_result_tampered_state", confirmed),
        plain("test_input_required_result_multiple_inputs", |call| async move {
            let answers = call.peer.ask(several()).await?;
            let name = answers.elicitation("user_name").map(told).unwrap_or_default();
            let greeting = answers.sampling("greeting").map(|answer| answer.message.text());
            let roots = answers.roots("client_roots").map_or(0, <[_]>::len);
            let greeting = greeting.unwrap_or_default();
            Ok(ToolOutput::text(format!("{name}; {greeting}; {roots} roots")))
        }),
        plain("test_input_required_result_multi_round", |call| async move {
            let schema = |name: &str| form(json!({name: {"type": "string"}}));
            let question = ElicitationRequest::form("Step 1: What is your name?", schema("name"));
            let name = call.peer.elicit("step1", question).await?;
            let question =
                ElicitationRequest::form("Step 2: What is your favorite color?", schema("color"));
            let color = call.peer.elicit("step2", question).await?;
            Ok(ToolOutput::text(format!("{}; {}", told(&name), told(&color))))
        }),
        plain("test_input_required_result_capabilities", |call| async move {
            let peer = &call.peer;
            let can = |(_, request): &(&str, InputRequest)| match request {
                InputRequest::Elicitation(_) => peer.supports_elicitation_form(),
                InputRequest::Sampling(_) => peer.supports_sampling(),
                InputRequest::Roots => peer.supports_roots(),
            };
            let answers = peer.ask(several().into_iter().filter(can)).await?;
            let greeting = answers.sampling("greeting").map(|answer| answer.message.text());
            Ok(ToolOutput::text(greeting.unwrap_or_else(|| "nothing to ask".to_owned())))
        }),
    ]
}

/// Returns the input schema of a tool with one required text parameter, called `name`.
fn one_text(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
}

/// Returns the schema of a form in which every field is required.
pub(super) fn form(fields: Value) -> Value {
    let required: Vec<String> =
        fields.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    json!({"type": "object", "properties": fields, "required": required})
}

/// Returns the client's response to an elicitation request as text.
pub(super) fn told(answer: &ElicitationResponse) -> String {
    match answer {
        ElicitationResponse::Accept(content) => format!("action=accept, content={content}"),
        ElicitationResponse::Decline => "action=decline".to_owned(),
        ElicitationResponse::Cancel => "action=cancel".to_owned(),
    }
}

/// Sends a sampling request with the user message `prompt`, and returns the text of the response. `key` identifies the
/// request within the tool call.
async fn sample(peer: &McpPeer, key: &str, prompt: &str) -> Result<String, ToolError> {
    let messages = vec![Message::user(prompt)];
    let request = SamplingRequest { messages, max_tokens: 100, ..Default::default() };
    Ok(peer.sample(key, request).await?.message.text())
}

/// Asks the user to fill in a form with the schema `schema`. Returns the user's response as text.
async fn completes(call: Call, schema: Value) -> Result<ToolOutput, ToolError> {
    let question = ElicitationRequest::form("Please fill in the form", schema);
    let answer = call.peer.elicit("form", question).await?;
    Ok(ToolOutput::text(format!("Elicitation completed: {}", told(&answer))))
}

/// Runs a tool that asks the user for a name with a form, and returns a greeting.
async fn name_is_asked(call: Call) -> Result<ToolOutput, ToolError> {
    let schema = form(json!({"name": {"type": "string"}}));
    let question = ElicitationRequest::form("What is your name?", schema);
    let greeting = match call.peer.elicit("user_name", question).await? {
        ElicitationResponse::Accept(content) => {
            format!("Hello, {}!", content["name"].as_str().unwrap_or_default())
        }
        ElicitationResponse::Decline | ElicitationResponse::Cancel => "Hello, whoever!".to_owned(),
    };
    Ok(ToolOutput::text(greeting))
}

/// Runs a tool that asks the user for a confirmation with a form.
async fn confirmed(call: Call) -> Result<ToolOutput, ToolError> {
    let question =
        ElicitationRequest::form("Please confirm", form(json!({"ok": {"type": "boolean"}})));
    let answer = call.peer.elicit("confirm", question).await?;
    // The server has already refused a changed or foreign state before it runs the tool again.
    Ok(ToolOutput::text(format!("state-ok: {}", told(&answer))))
}

/// Returns an elicitation request, a sampling request and a roots request, each with its key.
fn several() -> [(&'static str, InputRequest); 3] {
    let schema = form(json!({"name": {"type": "string"}}));
    let messages = vec![Message::user("Generate a greeting")];
    let sampling = SamplingRequest { messages, max_tokens: 50, ..Default::default() };
    [
        ("user_name", ElicitationRequest::form("What is your name?", schema).into()),
        ("greeting", sampling.into()),
        ("client_roots", InputRequest::Roots),
    ]
}

/// Returns a form schema with default values (SEP-1034).
fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
        },
        "verified": {"type": "boolean", "default": true},
    }})
}

/// Returns a form schema with every kind of enumeration (SEP-1330).
fn enums() -> Value {
    let plain = ["option1", "option2", "option3"];
    let titled = |titles: [&str; 3]| {
        let names = ["value1", "value2", "value3"];
        let options = names.iter().zip(titles);
        let options = options.map(|(name, title)| json!({"const": name, "title": title}));
        options.collect::<Vec<Value>>()
    };
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {
            "type": "string",
            "oneOf": titled(["First Option", "Second Option", "Third Option"]),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])},
        },
    }})
}
