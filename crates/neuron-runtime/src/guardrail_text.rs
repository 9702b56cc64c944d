//! Extracts the texts that guardrails check from new messages and from a response.

use neuron_types::{
    CompletionResponse, ContentBlock, ContentItem, DocumentSource, Message, Role, ToolCall,
};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Returns the user's text in new messages, including plain-text documents. Includes tool results if
/// `with_tool_results` is set. Each message, document and result starts a new line.
///
/// A vendor-specific block without a standard block contributes all of its strings, because the vendor's model reads
/// them.
pub(crate) fn input_text(messages: &[Message], with_tool_results: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for message in messages.iter().filter(|message| message.role == Role::User) {
        lines.push(message.text());
        for block in &message.content {
            match (block, block.portable()) {
                (
                    _,
                    Some(ContentBlock::Document { source: DocumentSource::PlainText { data } }),
                ) => {
                    lines.push(data.clone());
                }
                (_, Some(ContentBlock::ToolResult { content, .. })) if with_tool_results => {
                    lines.extend(content.iter().filter_map(text_of_item));
                }
                (ContentBlock::Raw { json, .. }, None) if !block.is_mark() => {
                    add_texts(json, &mut lines);
                }
                _ => {}
            }
        }
    }
    joined(lines)
}

/// Returns the text of a response for the output guardrails. `said_before` is the text of earlier responses in the same
/// turn, which precedes it. The output of a typed run, which the model may give as a call of `output_tool`, is included
/// as JSON. Returns an empty text if the response itself has no text.
///
/// JSON may contain escaped characters (`\u0040`, `\n`). An unescaped copy is then appended, so that guardrails also
/// check the text that a reader of the parsed JSON gets.
pub(crate) fn output_text(
    response: &CompletionResponse,
    said_before: &str,
    output_tool: Option<&str>,
) -> String {
    let mut lines = vec![response.message.text()];
    for call in response.message.tool_uses() {
        if output_tool == Some(call.name) {
            // Incomplete JSON of a cut-off response is used unchanged.
            let raw = ToolCall::invalid_json(call.input).map(str::to_owned);
            lines.push(raw.unwrap_or_else(|| call.input.to_string()));
        }
    }
    let has_output = lines.len() > 1;
    let text = joined(lines);
    if text.is_empty() {
        return text;
    }
    // A provider may pause a response and continue it. A forbidden text may be split between the two parts.
    let text = format!("{said_before}{text}");
    let as_read = if has_output || has_json(&text) { unescaped(&text) } else { text.clone() };
    if as_read == text { text } else { format!("{text}\n{as_read}") }
}

/// Returns `true` if a text is JSON, or contains JSON in a fenced block.
fn has_json(text: &str) -> bool {
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = lines.split(|line| line.trim_start().starts_with("```")).skip(1);
    is_json(text) || blocks.any(|block| is_json(&block.join("\n")))
}

/// Replaces the escapes of JSON by their characters. Quotes and backslashes stay escaped, so that strings remain
/// strings.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        plain.push_str(before);
        if let Some((character, after)) = escaped_character(behind) {
            plain.push(character);
            rest = after;
        } else {
            // The character after the backslash is copied too, because it does not start another escape.
            let mut characters = behind.chars();
            plain.push('\\');
            plain.extend(characters.next());
            rest = characters.as_str();
        }
    }
    plain + rest
}

/// Parses a JSON escape. `text` starts after the backslash. Returns the escaped character and the rest of the text.
/// Returns `None` for an escaped quote or backslash, and for an invalid escape.
fn escaped_character(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let plain = match characters.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '/' => '/',
        'u' => return escaped_unicode(characters.as_str()),
        _ => return None,
    };
    Some((plain, characters.as_str()))
}

/// Parses a `\u` escape, which may be a surrogate pair. `text` starts after the first `\u`. Returns the character and
/// the rest of the text. Returns `None` for an invalid escape.
fn escaped_unicode(text: &str) -> Option<(char, &str)> {
    let unit = |text: &str| -> Option<u16> {
        let digits =
            text.get(..4).filter(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()));
        u16::from_str_radix(digits?, 16).ok()
    };
    let first = unit(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, text.get(4..)?));
    }
    let second = text.get(4..)?.strip_prefix("\\u")?;
    let character = char::decode_utf16([first, unit(second)?]).next()?.ok()?;
    Some((character, second.get(4..)?))
}

/// Adds all strings in a JSON value to `lines`, without the names of fields.
fn add_texts(json: &Value, lines: &mut Vec<String>) {
    match json {
        Value::String(text) => lines.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, lines)),
        Value::Object(fields) => fields.values().for_each(|value| add_texts(value, lines)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text that the model reads for an item of a tool result. A resource is included with its URI. Other media
/// are described in a few words. Returns `None` for an image.
fn text_of_item(item: &ContentItem) -> Option<String> {
    match item {
        ContentItem::Image { .. } => None,
        item => Some(item.to_string()),
    }
}

/// Joins all lines that are not empty with line feeds.
fn joined(mut lines: Vec<String>) -> String {
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use neuron_types::{EmbeddedResource, ImageSource, ResourceLink};

    use super::*;

    #[test]
    fn text_of_tool_results_includes_all_that_the_model_reads() {
        let content = vec![
            ContentItem::Text("a".into()),
            ContentItem::Image { source: ImageSource::Url { url: "https://b".into() } },
            ContentItem::Audio { media_type: "audio/wav".into(), data: "Yw==".into() },
            ContentItem::Resource { resource: EmbeddedResource::text("file:///d", "e") },
            ContentItem::Resource { resource: EmbeddedResource::blob("file:///f", "Zw==") },
            ContentItem::ResourceLink { resource: ResourceLink::new("file:///h", "i") },
        ];
        let tool_use_id = "c1".to_owned();
        let result = ContentBlock::ToolResult { tool_use_id, content, is_error: false };
        let messages = [Message { role: Role::User, content: vec![result] }];
        assert_eq!(input_text(&messages, false), "");
        let expected = "a\n[audio, audio/wav]\n[resource file:///d]\ne\n[resource file:///f]\n\
                        [link to resource file:///h: i]";
        assert_eq!(input_text(&messages, true), expected);
    }
}
