//! Extraction of JSON from a model's text.

use serde_json::Value;

/// Parses the JSON in a model's text.
///
/// The text must be JSON, or must contain exactly one fenced block (three backticks) with JSON. A text with several
/// blocks is ambiguous.
///
/// # Errors
///
/// Returns an error text for the model, which states why no JSON could be parsed.
///
/// # Example
///
/// ```
/// use neuron_model::json_in;
///
/// assert_eq!(json_in("Here it is:\n```json\n[1]\n```").unwrap(), serde_json::json!([1]));
/// assert!(json_in("It is [1].").is_err());
/// ```
pub fn json_in(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the answer has no text".into());
    }
    match (serde_json::from_str(text), only_block(text)) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(block)) => serde_json::from_str(block)
            .map_err(|error| format!("the fenced block is not JSON: {error}")),
        (Err(error), None) => Err(format!("the text is not JSON: {error}")),
    }
}

/// Returns the content of the fenced block in a text. Returns `None` if there is no fenced block, if there are several,
/// or if the block is not closed.
fn only_block(text: &str) -> Option<&str> {
    let mut position = 0;
    let mut fences = text.split_inclusive('\n').filter_map(|line| {
        let start = position;
        position += line.len();
        line.trim_start().starts_with("```").then_some((start, position, line.trim()))
    });
    let (_, start, _) = fences.next()?;
    let (end, _, closing) = fences.next()?;
    let is_only = closing == "```" && fences.next().is_none();
    if is_only { text.get(start..end) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn finds(text: &str) {
        assert_eq!(json_in(text), Ok(json!({"a": 1})), "{text}");
    }

    #[track_caller]
    fn fails(text: &str, reason: &str) {
        let error = json_in(text).unwrap_err();
        assert!(error.starts_with(reason), "{text}: {error}");
    }

    #[test]
    fn json_text_and_single_fenced_block_are_parsed() {
        finds(r#"{"a": 1}"#);
        finds("\n  {\"a\":\n1}  \n");
        finds("```json\n{\"a\": 1}\n```");
        finds("```\n{\"a\": 1}\n```\n");
        finds("Here it is:\r\n\r\n  ```JSON\r\n{\"a\":\r\n 1}\r\n  ```\r\nAnything else?");
        assert_eq!(json_in(r#""``` is a fence""#), Ok(json!("``` is a fence")));
        assert_eq!(json_in("null"), Ok(Value::Null));
    }

    #[test]
    fn ambiguous_text_is_an_error() {
        fails("", "the answer has no text");
        fails(" \n", "the answer has no text");
        fails(r#"It is {"a": 1}."#, "the text is not JSON: expected value at line 1 column 1");
        fails(r#"{"a": 1} {"a": 2}"#, "the text is not JSON: trailing characters");
        fails(r#"{"a": 1"#, "the text is not JSON: EOF");
        fails("```json\n{\"a\": 1}\n```\n```json\n{\"a\": 2}\n```", "the text is not JSON");
        fails("```json\n{\"a\": 1}", "the text is not JSON");
        fails("```json {\"a\": 1}```", "the text is not JSON");
        fails("```\n{\"a\": 1}\n``` or so", "the text is not JSON");
        fails("See:\n```json\n{\"a\": }\n```", "the fenced block is not JSON: expected value");
        fails("```\n```", "the fenced block is not JSON: EOF");
    }

    #[test]
    fn truncated_text_does_not_panic() {
        let text = "ä```json\n{\"a\": \"日本\"}\n```\n𝄞";
        for (cut, _) in text.char_indices() {
            json_in(&text[..cut]).ok();
            json_in(&text[cut..]).ok();
        }
        fails(&"[".repeat(100_000), "the text is not JSON: recursion limit");
    }
}
