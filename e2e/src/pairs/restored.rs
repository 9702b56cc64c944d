//! The JSON that a request to a vendor must contain for the vendor's own earlier content.
//!
//! Each function has the rules of one wire. It gets a message, a block of the message, and the model of the request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use neuron_types::{ContentBlock, Message};
use serde_json::{Value, json};

/// Field of a raw block of Bedrock that is never sent.
const ORIGIN: &str = "neuron:origin";

/// Field of a signed part of Gemini that is never sent.
const SIGNED_BY: &str = "neuron:signedBy";

/// What a request to a wire contains of a block.
#[derive(Debug, PartialEq)]
pub(crate) enum Restored {
    /// The block is the wire's own, and the request contains this JSON.
    Whole(Value),
    /// The block is the wire's own, and the provider may leave it out for a documented reason.
    Optional,
    /// The block is of another wire, or its own form is not usable.
    Foreign,
}

use Restored::{Foreign, Optional, Whole};

/// Returns the JSON of a raw block of `provider`.
fn own<'b>(block: &'b ContentBlock, provider: &str) -> Option<&'b Value> {
    match block {
        ContentBlock::Raw { provider: name, json, .. } if name == provider => Some(json),
        _ => None,
    }
}

/// Returns `true` if a request to `provider` contains a block, and the block is not a common block of thinking.
fn is_said(block: &ContentBlock, provider: &str) -> bool {
    match block.portable().filter(|_| own(block, provider).is_none()) {
        Some(ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }) => false,
        Some(ContentBlock::Text(text)) => !text.trim().is_empty(),
        other => other.is_some() || own(block, provider).is_some(),
    }
}

fn is_type(json: &Value, kind: &str) -> bool {
    json.get("type").is_some_and(|found| found == kind)
}

/// Returns [`Foreign`] for each block, because the vendor has no content of its own.
pub(crate) fn nothing(_: &Message, _: &ContentBlock, _: &str) -> Restored {
    Foreign
}

pub(crate) fn by_anthropic(message: &Message, block: &ContentBlock, _: &str) -> Restored {
    // Thinking at the end of a message is left out, because the API rejects it.
    let is_other = |block: &ContentBlock| {
        let is_open = own(block, "anthropic").is_some_and(|json| is_type(json, "server_tool_use"));
        !is_open && is_said(block, "anthropic")
    };
    let mut following = message.content.iter().skip_while(|other| !std::ptr::eq(*other, block));
    let is_followed = following.any(is_other);
    match block {
        ContentBlock::Thinking { signature, .. } if !signature.is_empty() && !is_followed => {
            Optional
        }
        ContentBlock::RedactedThinking { .. } if !is_followed => Optional,
        ContentBlock::Thinking { thinking, signature } if !signature.is_empty() => {
            Whole(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
        }
        ContentBlock::RedactedThinking { data } => {
            Whole(json!({"type": "redacted_thinking", "data": data}))
        }
        block => match own(block, "anthropic") {
            // Only a call with a result is sent. The server checks the results.
            Some(json) if is_type(json, "server_tool_use") => Optional,
            Some(json) => Whole(json.clone()),
            None => Foreign,
        },
    }
}

/// Returns `true` if the JSON of a raw block of OpenAI is of Chat Completions.
fn is_of_chat(json: &Value) -> bool {
    let is_call = json.get("function").is_some() || json.get("custom").is_some();
    is_call || is_type(json, "message") && json.get("content").is_none()
}

pub(crate) fn by_responses(message: &Message, block: &ContentBlock, _: &str) -> Restored {
    let own = |block| own(block, "openai").filter(|json| !is_of_chat(json));
    let Some(json) = own(block) else { return Foreign };
    if is_type(json, "function_call") {
        // Arguments that were cut off are repaired, and so are names that the API does not accept.
        let mut json = json.clone();
        if let Some(fields) = json.as_object_mut() {
            fields.shift_remove("arguments");
            fields.shift_remove("name");
            // A compatible server may leave out the `call_id`, which is then added.
            fields.shift_remove("call_id");
        }
        return Whole(json);
    }
    if is_type(json, "reasoning") {
        // Reasoning at the end of a message is left out, because the API rejects it.
        let is_other = |other| own(other).is_some_and(|json| !is_type(json, "reasoning"));
        let mut following = message.content.iter().skip_while(|other| !std::ptr::eq(*other, block));
        return if following.any(is_other) { Whole(json.clone()) } else { Optional };
    }
    Whole(json.clone())
}

pub(crate) fn by_chat(_: &Message, block: &ContentBlock, _: &str) -> Restored {
    let Some(json) = own(block, "openai").filter(|json| is_of_chat(json)) else { return Foreign };
    // The API accepts earlier speech only by its id, and no annotations.
    match (json.get("refusal"), json.pointer("/audio/id")) {
        (Some(refusal), None) => Whole(json!({"refusal": refusal})),
        (None, Some(id)) => Whole(json!({"id": id})),
        _ if is_type(json, "message") => Optional,
        _ => Whole(json.clone()),
    }
}

pub(crate) fn by_gemini(_: &Message, block: &ContentBlock, model: &str) -> Restored {
    part(block, "gcp.gemini", model)
}

pub(crate) fn by_vertex(_: &Message, block: &ContentBlock, model: &str) -> Restored {
    part(block, "gcp.vertex_ai", model)
}

/// Returns a part without the signature of another model, and without an id that the model does not know.
fn part(block: &ContentBlock, platform: &str, model: &str) -> Restored {
    let Some(Value::Object(mut fields)) = own(block, platform).cloned() else { return Foreign };
    let signer = fields.shift_remove(SIGNED_BY);
    if signer.is_some_and(|signer| signer != model) {
        fields.shift_remove("thoughtSignature");
        if fields.get("text").is_some_and(|text| text == "") {
            return Foreign;
        }
    }
    if model.starts_with("gemini-2")
        && let Some(call) = fields.get_mut("functionCall").and_then(Value::as_object_mut)
    {
        call.shift_remove("id");
    }
    Whole(fields.into())
}

pub(crate) fn by_bedrock(message: &Message, block: &ContentBlock, model: &str) -> Restored {
    let is_claude = model.contains("anthropic.");
    let reasoning = match block {
        ContentBlock::Thinking { thinking, signature } if is_claude && !signature.is_empty() => {
            json!({"reasoningText": {"text": thinking, "signature": signature}})
        }
        ContentBlock::RedactedThinking { data } if is_claude => {
            json!({"redactedContent": STANDARD.encode(data)})
        }
        block => match own(block, "aws.bedrock").cloned() {
            Some(Value::Object(mut fields)) => {
                let origin = fields.shift_remove(ORIGIN);
                if origin.is_none_or(|origin| origin != origin_of(model)) {
                    return Foreign;
                }
                let reads_reasoning = ["anthropic.", "deepseek.", "openai."];
                let reads_citations = ["anthropic.", "amazon."];
                let is_one = |vendors: &[&str]| vendors.iter().any(|it| model.contains(it));
                match fields.get("reasoningContent") {
                    Some(reasoning) if is_one(&reads_reasoning) => reasoning.clone(),
                    Some(_) => return Foreign,
                    None if fields.contains_key("citationsContent")
                        && !is_one(&reads_citations) =>
                    {
                        return Foreign;
                    }
                    // The API accepts files from the user only.
                    None if fields.contains_key("image") => return Foreign,
                    None => return Whole(fields.into()),
                }
            }
            _ => return Foreign,
        },
    };
    // Reasoning at the end of a message is left out, because Claude rejects it.
    let is_other = |block: &ContentBlock| {
        let reasons = |json: &Value| json.get("reasoningContent").is_some();
        !own(block, "aws.bedrock").is_some_and(reasons) && is_said(block, "aws.bedrock")
    };
    let mut following = message.content.iter().skip_while(|other| !std::ptr::eq(*other, block));
    if following.any(is_other) { Whole(json!({"reasoningContent": reasoning})) } else { Optional }
}

/// Returns the name of the models of Bedrock that accept each other's raw blocks.
fn origin_of(model: &str) -> &str {
    let names = [("anthropic.", "claude"), ("amazon.nova-2", "nova-2"), ("deepseek.", "deepseek")];
    let known = names.iter().find(|(vendor, _)| model.contains(vendor));
    known.map_or(model, |(_, name)| name)
}
