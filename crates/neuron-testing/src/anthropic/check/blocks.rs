//! Anthropic's rules for the position and the fields of a content block.

use super::ApiError;
use super::wording::{Object, Wording, invalid};
use crate::shape::{Problem, Wording as _, words};

/// Checks a content block. `place` is the role of the message that contains the block. For a block inside of a tool
/// result, `place` is `tool_result`.
pub(super) fn check_block(block: &Object<'_>, place: &str, betas: &[&str]) -> Result<(), ApiError> {
    let name = block.text("type")?;
    // `shapes.json` does not describe the fields of beta blocks, so these blocks are accepted unchecked.
    if !betas.is_empty() && words(Wording.shape("places"), "beta").any(|beta| beta == name) {
        return Ok(());
    }
    check_place(block, name, place, betas)?;
    let block = block.tagged("block", "type")?;
    match name {
        "text" => check_not_blank(&block.at("text"), block.text("text")?),
        "tool_result" => check_result(&block, betas),
        _ => Ok(()),
    }
}

/// Checks that a block of the type `name` is allowed in `place`, which is a role or `tool_result`.
fn check_place(
    block: &Object<'_>,
    name: &str,
    place: &str,
    betas: &[&str],
) -> Result<(), ApiError> {
    let compacts = betas.iter().any(|beta| beta.starts_with("compact-"));
    let exists = |kind: &&str| compacts || *kind != "compaction";
    let here: Vec<&str> = words(Wording.shape("places"), place).filter(exists).collect();
    let all = Wording.shape("block").as_object().into_iter().flatten();
    let all: Vec<&str> = all.map(|(kind, _)| kind.as_str()).filter(exists).collect();
    let tags = match place {
        _ if here.contains(&name) => return Ok(()),
        "user" | "assistant" if all.contains(&name) => {
            let other = if place == "user" { "assistant" } else { "user" };
            return Err(invalid(format!(
                "{}: `{name}` blocks can only be in `{other}` messages",
                block.path
            )));
        }
        "user" | "assistant" => all,
        _ => here,
    };
    Err(Wording.error(&block.path, Problem::Tag { key: "type", tags: &tags, found: name }))
}

/// Checks that a text is neither empty nor only whitespace.
pub(super) fn check_not_blank(path: &str, text: &str) -> Result<(), ApiError> {
    let what = match text.trim() {
        _ if text.is_empty() => "be non-empty",
        "" => "contain non-whitespace text",
        _ => return Ok(()),
    };
    Err(invalid(format!("{path}: text content blocks must {what}")))
}

/// Checks the content of a `tool_result` block. An error result must have content, and only text.
fn check_result(block: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let (path, is_error) = (block.at("content"), block.is_true("is_error"));
    let items = block.objects("content");
    for item in &items {
        check_block(item, "tool_result", betas)?;
        if is_error && item.str("type") != Some("text") {
            return Err(invalid(format!(
                "{path}: all content must be type 'text' if 'is_error' is true"
            )));
        }
    }
    if is_error && items.is_empty() && block.str("content").is_none_or(str::is_empty) {
        return Err(invalid(format!("{path}: content cannot be empty if `is_error` is true")));
    }
    Ok(())
}
