//! Removal of hidden characters from a tool's definition, for the model and for people who review the tool.

use neuron_types::ToolDefinition;
use serde_json::Value;

/// Removes the characters that hide or reorder text from the title, the description and the texts in the schemas. The
/// name is not changed.
pub(super) fn cleaned(mut definition: ToolDefinition) -> ToolDefinition {
    definition.title = definition.title.map(clean);
    definition.description = clean(definition.description);
    clean_schema(&mut definition.input_schema);
    definition.output_schema.iter_mut().for_each(clean_schema);
    definition
}

/// Removes hidden characters from all titles and descriptions in a schema. Values such as `enum` and `default` are
/// kept, because they are data.
fn clean_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    // A schema may have a property named `title`. Then the value is a schema, not a text.
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

/// Returns `true` if a character hides or reorders text. These are the hidden characters:
///
/// - control characters, except line breaks and tabs,
/// - direction marks,
/// - Unicode tags,
/// - zero-width characters, except joiners.
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
    fn cleaned_removes_hidden_characters_but_keeps_values() {
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
