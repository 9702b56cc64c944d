//! Texts of a peer in the form in which they are shown.
//!
//! A peer can hide text from a person who reviews it, or change its order on the screen, with characters that have no
//! shape of their own. Such characters are removed from everything that a server names, and from its errors. They stay
//! in content, such as results and log messages.

use serde_json::Value;

/// Maximum number of characters of a peer's text in an error.
const SHOWN: usize = 500;

/// Removes hidden characters from a text of several lines, such as a description. Keeps line feeds and tabs.
pub(crate) fn cleaned(text: String) -> String {
    without(text, |char| is_hidden(char) && !matches!(char, '\n' | '\t'))
}

/// Removes hidden characters, line feeds and tabs from a name or a title.
pub(crate) fn cleaned_name(text: String) -> String {
    without(text, is_hidden)
}

/// Removes hidden characters from all titles and descriptions in a JSON Schema. Values such as `enum` and `default` are
/// kept, because they are data.
pub(crate) fn clean_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    // A schema may have a property named `title`. Then the value is a schema, not a text.
                    Value::String(text) if matches!(name.as_str(), "title" | "description") => {
                        *text = cleaned(std::mem::take(text));
                    }
                    value => clean_schema(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean_schema),
        _ => {}
    }
}

/// Returns the first [`SHOWN`] characters of a text from a peer, without hidden characters. A peer may respond with a
/// whole page.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => cleaned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => cleaned(text.to_owned()),
    }
}

fn without(text: String, is_removed: fn(char) -> bool) -> String {
    match text.contains(is_removed) {
        true => text.chars().filter(|char| !is_removed(*char)).collect(),
        false => text,
    }
}

/// Returns `true` if a character hides or reorders text. These are the hidden characters:
///
/// - control characters,
/// - direction marks,
/// - Unicode tags,
/// - zero-width characters, except joiners.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61C}'
                | '\u{AD}'
                | '\u{34F}'
                | '\u{180E}'
                | '\u{3164}'
                | '\u{200B}'
                | '\u{FE00}'..='\u{FE0E}'
                | '\u{E0100}'..='\u{E01EF}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HIDDEN: &str =
        "a\u{202E}b\u{0}c\u{E0041}d\u{200B}\n\te\u{200D}\u{1b}\u{9b}é\r\u{2066}\u{FEFF}🦀\u{200F}";
    const SHOWN: &str = "abcd\n\te\u{200D}é🦀";

    #[test]
    fn hidden_characters_are_removed() {
        assert_eq!(cleaned(HIDDEN.to_owned()), SHOWN);
        assert_eq!(cleaned_name(HIDDEN.to_owned()), "abcde\u{200D}é🦀");
        assert_eq!(shortened(HIDDEN), SHOWN);
        assert_eq!(shortened(&"é".repeat(501)), format!("{}…", "é".repeat(500)));
    }

    #[test]
    fn hidden_characters_are_removed_from_schemas_but_not_from_values() {
        let mut schema = json!({
            "description": HIDDEN,
            "properties": {
                "description": { "title": HIDDEN, "enum": [HIDDEN], "default": HIDDEN },
                "list": { "anyOf": [{ "description": HIDDEN }] },
            },
        });
        clean_schema(&mut schema);
        assert_eq!(
            schema,
            json!({
                "description": SHOWN,
                "properties": {
                    "description": { "title": SHOWN, "enum": [HIDDEN], "default": HIDDEN },
                    "list": { "anyOf": [{ "description": SHOWN }] },
                },
            })
        );
    }
}
