//! The texts of a server's definition, as a model and a person are shown them.

use neuron_types::ToolDefinition;
use serde_json::Value;

/// Removes the characters that hide or reorder text from the title, the description and the texts of the schemas.
pub(super) fn cleaned(mut definition: ToolDefinition) -> ToolDefinition {
    definition.title = definition.title.map(clean);
    definition.description = clean(definition.description);
    clean_schema(&mut definition.input_schema);
    definition.output_schema.iter_mut().for_each(clean_schema);
    definition
}

fn clean_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    // A property of this name has a schema in this place.
                    Value::String(text) if matches!(name.as_str(), "title" | "description") => {
                        *text = clean(std::mem::take(text));
                    }
                    value => clean_schema(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean_schema),
        _ => {}
    }
}

fn clean(text: String) -> String {
    match text.contains(is_hidden) {
        true => text.chars().filter(|char| !is_hidden(*char)).collect(),
        false => text,
    }
}

/// Returns `true` for control characters except line breaks and tabs, for direction marks, for zero-width
/// characters that join no letters, and for the invisible tags of Unicode.
fn is_hidden(char: char) -> bool {
    char.is_control() && !matches!(char, '\n' | '\r' | '\t')
        || matches!(
            char,
            '\u{61C}'
                | '\u{200B}'
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

    #[test]
    fn characters_that_hide_or_reorder_text_are_removed_and_values_stay() {
        let hidden = "a\u{202E}b\u{0}c\u{E0041}d\u{200B}\n\te\u{200D}é🦀";
        let shown = "abcd\n\te\u{200D}é🦀";
        let definition = ToolDefinition {
            name: "t".into(),
            title: Some(hidden.into()),
            description: hidden.into(),
            input_schema: json!({
                "description": hidden,
                "properties": {
                    "description": { "title": hidden, "enum": [hidden], "default": hidden },
                    "list": { "anyOf": [{ "description": hidden }] },
                },
            }),
            output_schema: Some(json!({ "title": hidden })),
            annotations: None,
            cache_control: None,
        };
        let cleaned = cleaned(definition);
        assert_eq!((cleaned.title.as_deref(), &*cleaned.description), (Some(shown), shown));
        assert_eq!(
            cleaned.input_schema,
            json!({
                "description": shown,
                "properties": {
                    "description": { "title": shown, "enum": [hidden], "default": hidden },
                    "list": { "anyOf": [{ "description": shown }] },
                },
            })
        );
        assert_eq!(cleaned.output_schema, Some(json!({ "title": shown })));
    }
}
