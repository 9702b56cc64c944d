//! Removal of tools from a list whose schema is nested too deeply for the JSON parser. Without the removal, one tool
//! would make the whole list unreadable.

/// Number of levels that the JSON parser accepts. The message itself is the first level.
const MAX_LEVELS: usize = 127;

/// Level of the list `tools` in a response. The result is the second level.
const LIST_LEVEL: usize = 3;

/// Returns the JSON text of a message with `null` in place of each tool that is nested too deeply. Returns `None` if
/// the message has no such tool.
///
/// The reader of the list skips these items and logs them, as it does with any other invalid item.
pub(super) fn without_deep_tools(message: &str) -> Option<String> {
    let mut result = String::new();
    // The text before this position is in the result.
    let mut copied = 0;
    let (mut level, mut is_text, mut is_escaped) = (0_usize, false, false);
    let (mut is_list, mut start, mut is_deep) = (false, 0, false);
    for (at, byte) in message.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                level += 1;
                if level == LIST_LEVEL {
                    is_list = byte == b'[' && follows_key(message.get(..at)?);
                } else if level == LIST_LEVEL + 1 {
                    (start, is_deep) = (at, false);
                }
                is_deep |= level > MAX_LEVELS;
            }
            b'}' | b']' => {
                if is_list && is_deep && level == LIST_LEVEL + 1 {
                    result.push_str(message.get(copied..start)?);
                    result.push_str("null");
                    copied = at + 1;
                }
                level = level.checked_sub(1)?;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return None;
    }
    result.push_str(message.get(copied..)?);
    Some(result)
}

/// Returns `true` if a text ends with the key of the list.
fn follows_key(before: &str) -> bool {
    let key = before.trim_end().strip_suffix(':').map(str::trim_end);
    key.is_some_and(|key| key.ends_with("\"tools\""))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a response with a list that has the key `key` and items with these numbers of levels.
    fn response(key: &str, levels: &[usize]) -> String {
        let item =
            |levels: &usize| format!("{}1{}", "{\"a\\\"[\": ".repeat(*levels), "}".repeat(*levels));
        let items: Vec<_> = levels.iter().map(item).collect();
        format!("{{\"id\": 1, \"result\": {{\"{key}\" : [{}], \"x\": [{{}}]}}}}", items.join(", "))
    }

    #[test]
    fn only_items_that_the_parser_rejects_are_removed() {
        let parse = |text: &str| serde_json::from_str::<Value>(text);
        for most in [124, 125, 100_000] {
            let text = response("tools", &[1, most, 2, most]);
            match without_deep_tools(&text) {
                None => assert!(parse(&text).is_ok() && most == 124, "{most}"),
                Some(shorter) => {
                    parse(&text).unwrap_err();
                    let items = parse(&shorter).unwrap()["result"]["tools"].take();
                    assert_eq!(items[0], json!({"a\"[": 1}));
                    assert_eq!((&items[1], &items[3]), (&Value::Null, &Value::Null), "{most}");
                    assert!(items[2].is_object() && items[4].is_null());
                }
            }
        }
    }

    #[test]
    fn other_messages_are_not_changed() {
        let deep = "[".repeat(200);
        for text in [
            &response("content", &[200]),
            &deep,
            "]",
            "",
            "\"tools\": [",
            &format!("{{\"result\": {{\"tools\": {deep}"),
            &format!("{{\"result\": {{\"a\": {{\"tools\": [{deep}{}]}}}}}}", "]".repeat(200)),
        ] {
            assert_eq!(without_deep_tools(text), None, "{text}");
        }
    }
}
