//! Tests of the parsing of lines.

use serde_json::json;

use super::*;

/// Reads a text until its end. Returns the messages and the error responses to refused requests as JSON.
async fn read(text: &[u8], limit: usize) -> Vec<Value> {
    let mut inbox = Inbox::new(text, limit);
    let mut seen = Vec::new();
    loop {
        match inbox.next().await {
            Incoming::Messages(messages) => {
                seen.extend(messages.iter().map(|message| serde_json::to_value(message).unwrap()));
            }
            Incoming::Refused(answer) => seen.push(json!({ "refused": *answer })),
            Incoming::Nothing => {}
            Incoming::End => return seen,
        }
    }
}

/// Checks that the message `seen` is the error response to the request `id`, and that the error message contains
/// `text`.
#[track_caller]
fn check_error(seen: &Value, id: i64, text: &str) {
    assert_eq!(seen["id"], id, "{seen}");
    let message = seen["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(text), "{seen}");
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    let text = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\n   \n\
                Listening on port 3000\n\
                {\"level\":\"info\",\"text\":\"a log in JSON\"}\n\
                42\n\
                \t{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"} \n\
                {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"a\":1}}";
    let seen = read(text.as_bytes(), 1000).await;
    assert_eq!(
        seen,
        [
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": 2, "result": {"a": 1}}),
        ]
    );
}

#[tokio::test]
async fn invalid_response_fails_its_request() {
    let nested = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}", "[".repeat(100_000));
    let seen = read(nested.as_bytes(), 1_000_000).await;
    check_error(&seen[0], 1, "recursion limit exceeded");

    let seen =
        read(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"text\":\"\xff\xfe\"}}\n", 1000).await;
    check_error(&seen[0], 2, "invalid unicode");

    let seen = read(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"te", 1000).await;
    check_error(&seen[0], 3, "EOF while parsing");

    let seen = read(
        b"{\"jsonrpc\":\"2.0\",\"id\":4}\n{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":\"no\"}\n",
        1000,
    )
    .await;
    check_error(&seen[0], 4, "unrecognized JSON-RPC message");
    check_error(&seen[1], 5, "unrecognized JSON-RPC message");
}

#[tokio::test]
async fn response_over_the_limit_fails_its_request() {
    let long = "x".repeat(2000);
    let first = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"text\":\"{long}\"}}}}\n");
    let last = format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"text\":\"{long}\"}},\"id\":2}}\n");
    let nobodys = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"{long}\"}}\n"
    );
    let text =
        format!("{first}{last}{nobodys}{long}\n{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{}}}}\n");
    let seen = read(text.as_bytes(), 1000).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    for (place, id) in [1, 2].into_iter().enumerate() {
        assert_eq!(seen[place]["id"], id);
        assert_eq!(seen[place]["error"]["data"]["limit"], 1000);
    }
    assert_eq!(seen[2]["id"], 3);
}

#[tokio::test]
async fn batch_is_split_into_messages() {
    let text = br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":7},3,{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]
[]
[1,
"#;
    let seen = read(text, 1000).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0]["id"], 1);
    check_error(&seen[1], 2, "unrecognized JSON-RPC message");
    assert_eq!(seen[2]["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn invalid_request_is_refused() {
    let seen = read(b"{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}\n", 1000).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0]["refused"]["id"], "a");
    assert_eq!(seen[0]["refused"]["error"]["code"], -32600);

    // The id equals that of a request of the client, but the line is a request of the server and not a response.
    let seen = read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n", 1000).await;
    assert_eq!(seen[0]["refused"]["id"], 1);
}

#[test]
fn logged_line_is_truncated_at_a_character() {
    assert_eq!(beginning(b"short"), "short");
    assert_eq!(beginning("ä".repeat(1000).as_bytes()), format!("{}…", "ä".repeat(SHOWN_CHARS)));
    assert_eq!(beginning(b"\xff\xfe"), "\u{fffd}\u{fffd}");
}
