//! The rules for one content block: where it may stand, and what it may hold.

use serde_json::Value;

use super::ApiError;
use super::cache::check_cache_control;
use super::object::{Object, check_name, expected, invalid, unknown_tag};

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    User,
    Assistant,
    System,
    ToolResult,
}

/// A kind of block.
struct Kind {
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    places: &'static [Place],
}

const ANYWHERE: &[Place] = &[Place::User, Place::Assistant, Place::System, Place::ToolResult];
const BY_USERS: &[Place] = &[Place::User, Place::ToolResult];
const BY_BOTH: &[Place] = &[Place::User, Place::Assistant, Place::ToolResult];
const BY_MODELS: &[Place] = &[Place::Assistant];

const fn kind(
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    places: &'static [Place],
) -> Kind {
    Kind { name, required, optional, places }
}

const KINDS: &[Kind] = &[
    kind("text", &["text"], &["cache_control", "citations"], ANYWHERE),
    kind("image", &["source"], &["cache_control", "transformations"], BY_USERS),
    kind("document", &["source"], &["cache_control", "title", "context", "citations"], BY_BOTH),
    kind(
        "search_result",
        &["source", "title", "content"],
        &["cache_control", "citations"],
        BY_USERS,
    ),
    kind("thinking", &["thinking", "signature"], &[], BY_MODELS),
    kind("redacted_thinking", &["data"], &[], BY_MODELS),
    kind(
        "tool_use",
        &["id", "name", "input"],
        &["cache_control", "caller", "toolset_name"],
        BY_MODELS,
    ),
    kind(
        "tool_result",
        &["tool_use_id"],
        &["content", "is_error", "cache_control", "toolset_name"],
        &[Place::User],
    ),
    kind("server_tool_use", &["id", "name", "input"], &["cache_control", "caller"], BY_MODELS),
    server_result("web_search_tool_result"),
    server_result("web_fetch_tool_result"),
    server_result("code_execution_tool_result"),
    server_result("bash_code_execution_tool_result"),
    server_result("text_editor_code_execution_tool_result"),
    server_result("tool_search_tool_result"),
    kind("container_upload", &["file_id"], &["cache_control"], &[Place::User, Place::Assistant]),
    kind("browser_state", &["state_changes", "tabs"], &["cache_control"], &[Place::ToolResult]),
    kind("tool_reference", &["tool_name"], &["cache_control"], &[Place::ToolResult]),
];

const fn server_result(name: &'static str) -> Kind {
    kind(name, &["tool_use_id", "content"], &["cache_control", "caller"], BY_MODELS)
}

/// The kind that a compaction beta adds.
const COMPACTION: Kind = kind(
    "compaction",
    &["content"],
    &["encrypted_content", "signature", "tool_changes", "cache_control"],
    BY_MODELS,
);

/// Kinds that some beta adds and whose fields are not checked.
const BETA: &[&str] = &[
    "mcp_tool_use",
    "mcp_tool_result",
    "fallback",
    "tool_addition",
    "tool_removal",
    "advisor_tool_result",
    "mcp_tool_listing",
];

/// Checks a block of a message, or one inside a tool's result.
pub(super) fn check_block(
    path: &str,
    block: &Value,
    place: Place,
    betas: &[&str],
) -> Result<(), ApiError> {
    let block = Object::new(path, block)?;
    let name = block.text("type")?;
    if BETA.contains(&name) && !betas.is_empty() {
        return Ok(());
    }
    let compaction = betas.iter().any(|beta| beta.starts_with("compact-")).then_some(&COMPACTION);
    let kinds = || KINDS.iter().chain(compaction);
    let Some(kind) = kinds().find(|kind| kind.name == name) else {
        return Err(unknown_tag(path, name, kinds().map(|kind| kind.name)));
    };
    if !kind.places.contains(&place) {
        return Err(misplaced(path, kind, place));
    }
    let block = block.of_kind(name);
    for key in kind.required {
        block.required(key)?;
    }
    block.only(&[&["type"], kind.required, kind.optional])?;
    check_cache_control(&block)?;
    match name {
        "text" => check_text(&block),
        "image" | "document" => check_source(&block, name),
        "thinking" => block.text("thinking").and(block.text("signature")).map(drop),
        "tool_use" | "server_tool_use" => check_call(&block),
        "tool_result" => check_result(&block, betas),
        _ => Ok(()),
    }
}

/// Checks a block of the system prompt.
pub(super) fn check_system_block(path: &str, block: &Value) -> Result<(), ApiError> {
    let name = Object::new(path, block)?.text("type")?;
    match name {
        "text" => check_block(path, block, Place::System, &[]),
        other => Err(unknown_tag(path, other, ["text"].into_iter())),
    }
}

fn misplaced(path: &str, kind: &Kind, place: Place) -> ApiError {
    let name = kind.name;
    match place {
        Place::ToolResult | Place::System => {
            let here = KINDS.iter().filter(|kind| kind.places.contains(&place));
            unknown_tag(path, name, here.map(|kind| kind.name))
        }
        Place::User => {
            invalid(format!("{path}: `{name}` blocks can only be in `assistant` messages"))
        }
        Place::Assistant => {
            invalid(format!("{path}: `{name}` blocks can only be in `user` messages"))
        }
    }
}

fn check_text(block: &Object<'_>) -> Result<(), ApiError> {
    check_not_blank(&block.path_of("text"), block.text("text")?)
}

pub(super) fn check_not_blank(path: &str, text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(invalid(format!("{path}: text content blocks must be non-empty")));
    }
    if text.trim().is_empty() {
        return Err(invalid(format!(
            "{path}: text content blocks must contain non-whitespace text"
        )));
    }
    Ok(())
}

fn check_source(block: &Object<'_>, name: &str) -> Result<(), ApiError> {
    let source = Object::new(&block.path_of("source"), block.required("source")?)?;
    let kind = source.text("type")?;
    let required: &[&str] = match (name, kind) {
        (_, "base64") | ("document", "text") => &["media_type", "data"],
        (_, "url") => &["url"],
        (_, "file") => &["file_id"],
        ("document", "content") => &["content"],
        _ => {
            let kinds: &[&str] = match name {
                "document" => &["base64", "text", "content", "url", "file"],
                _ => &["base64", "url", "file"],
            };
            let path = block.path_of("source");
            return Err(unknown_tag(&path, kind, kinds.iter().copied()));
        }
    };
    let source = source.of_kind(kind);
    for key in required {
        source.required(key)?;
    }
    source.only(&[&["type"], required])?;
    let media_types: &[&str] = match (name, kind) {
        ("image", "base64") => &["image/jpeg", "image/png", "image/gif", "image/webp"],
        (_, "base64") => &["application/pdf"],
        (_, "text") => &["text/plain"],
        _ => return Ok(()),
    };
    if media_types.contains(&source.text("media_type")?) {
        return Ok(());
    }
    Err(expected(&source.path_of("media_type"), media_types))
}

fn check_call(block: &Object<'_>) -> Result<(), ApiError> {
    check_name(&block.path_of("id"), block.text("id")?, usize::MAX)?;
    check_name(&block.path_of("name"), block.text("name")?, 200)?;
    match block.required("input")? {
        Value::Object(_) => Ok(()),
        _ => {
            Err(invalid(format!("{}: Input should be a valid dictionary", block.path_of("input"))))
        }
    }
}

fn check_result(block: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    block.text("tool_use_id")?;
    let is_error = match block.get("is_error") {
        None => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => {
            return Err(invalid(format!(
                "{}: Input should be a valid boolean",
                block.path_of("is_error")
            )));
        }
    };
    let path = block.path_of("content");
    let empty = match block.get("content") {
        None => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(content)) => {
            for (index, item) in content.iter().enumerate() {
                check_block(&format!("{path}.{index}"), item, Place::ToolResult, betas)?;
                if is_error && item.get("type").is_none_or(|kind| kind != "text") {
                    return Err(invalid(format!(
                        "{path}: all content must be type 'text' if 'is_error' is true"
                    )));
                }
            }
            content.is_empty()
        }
        Some(_) => return Err(invalid(format!("{path}: Input should be a valid list"))),
    };
    if is_error && empty {
        return Err(invalid(format!("{path}: content cannot be empty if `is_error` is true")));
    }
    Ok(())
}
