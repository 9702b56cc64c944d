//! Search for the request id in a response that is too long or damaged. Only the first and last bytes of the response
//! are known.

use rmcp::model::RequestId;
use serde_json::{Map, Value};

use crate::lines::END_BYTES;

/// Returns the request id of a response whose first bytes are `head` and whose last bytes are `tail`. Returns `None` if
/// the line is not a response, or if its id is not in these bytes.
///
/// A line is a response if it has a member `result` or `error`. The id of any other line is ignored, because the server
/// uses its own numbers for its requests to the client.
pub(super) fn response_id(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let before = members_before_payload(head)?;
    let id = match before.get("id") {
        Some(id) => id.clone(),
        None => last_members(tail)?.remove("id")?,
    };
    serde_json::from_value(id).ok()
}

/// Returns the members of a JSON object that precede `result` or `error`. `head` contains the first bytes of the
/// object. Returns `None` if both keys are missing. Also returns `None` if the preceding members include `method` or
/// cannot be parsed.
fn members_before_payload(head: &[u8]) -> Option<Map<String, Value>> {
    let head = head.get(..END_BYTES).unwrap_or(head);
    let end = [&b"\"result\""[..], b"\"error\""].iter().filter_map(|key| find(head, key)).min()?;
    let before = std::str::from_utf8(head.get(..end)?).ok()?.trim_start_matches('\u{feff}').trim();
    let members = serde_json::from_str(&format!("{}}}", before.trim_end_matches(','))).ok()?;
    Some(members).filter(|members: &Map<_, _>| !members.contains_key("method"))
}

/// Returns the last `id` of a JSON object and the members after it. `tail` contains the last bytes of the object.
/// Returns `None` if there is no `id`, or if these members cannot be parsed.
fn last_members(tail: &[u8]) -> Option<Map<String, Value>> {
    let tail = tail.get(tail.len().saturating_sub(END_BYTES)..)?;
    let start = tail.windows(4).rposition(|window| window == b"\"id\"")?;
    let members = std::str::from_utf8(tail.get(start..)?).ok()?;
    // A nested `id` is followed by more than one closing brace, so that the text is not valid JSON.
    serde_json::from_str(&format!("{{{members}")).ok()
}

/// Returns the position of the first occurrence of `part` in `text`. Returns `None` if there is none.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<RequestId>) {
        assert_eq!(response_id(line.as_bytes(), line.as_bytes()), expected, "{line}");
    }

    #[test]
    fn id_is_found_at_either_end() {
        let seven = Some(RequestId::Number(7));
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"a":["#, seven.clone());
        check(r#" { "id" : 7 , "error" : {"message": ""#, seven.clone());
        check("\u{feff}{\"id\":7,\"result\":", seven.clone());
        check(r#"{"id":"seven","result":1"#, Some(RequestId::String("seven".into())));
        check(r#"{"result":{"id":8},"id":7}"#, seven.clone());
        check(r#"{"jsonrpc":"2.0","result":[],"id": 7, "x":true } "#, seven.clone());
        // If there are two ids, the first is that of the response.
        check(r#"{"id":7,"result":{"a":1},"id":8}"#, seven);
    }

    #[test]
    fn lines_that_are_not_responses_have_no_id() {
        check("", None);
        check("Listening on port 3000", None);
        check(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, None);
        check(r#"{"id":7,"method":"x","params":{"result":1}}"#, None);
        check(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"error":{"id":7}}}"#, None);
        check(r#"{"result":{"a":{"id":7}}}"#, None);
        check(r#"{"result":{"text":"… \"id\":7}"}}"#, None);
        check(r#"{"result":{"text":"id"},"x":"id"}"#, None);
        check(r#"{"result":1,"id":{"a":1}}"#, None);
        check(r#"{"jsonrpc":"2.0","id":7"#, None);
    }

    #[test]
    fn only_the_ends_of_a_line_are_searched() {
        let line = format!(r#"{{"x":"{}","id":7,"result":1}}"#, "x".repeat(END_BYTES));
        check(&line, None);
        let line = format!(r#"{{"result":"{}","id":7}}"#, "ä".repeat(END_BYTES));
        check(&line, Some(RequestId::Number(7)));
    }
}
