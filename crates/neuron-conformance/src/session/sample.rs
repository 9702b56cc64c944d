//! Creates the sessions and messages that the checks store.

use chrono::{DateTime, Utc};
use neuron_types::{Message, Session, SessionState, TokenUsage};
use serde_json::{Value, json};

use crate::random::Random;

/// Returns a time from Unix seconds and nanoseconds. Many databases truncate nanoseconds.
pub(super) fn moment(seconds: i64, nanoseconds: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, nanoseconds).unwrap_or_default()
}

/// Returns a session with two messages.
pub(super) fn small(id: impl Into<String>) -> Session {
    let mut session = Session::new(id, "/srv/project".into());
    session.created_at = moment(1_700_000_000, 123_456_789);
    session.updated_at = moment(1_700_000_001, 987_654_321);
    session.messages = vec![Message::user("What is Rust?"), Message::assistant("A language.")];
    session
}

/// Returns a session with `count` messages of one writer, each of at least `bytes` bytes. Its `event_count` is the
/// number `writer`.
pub(super) fn written(id: impl Into<String>, writer: u64, count: usize, bytes: usize) -> Session {
    let mut session = Session { messages: messages(writer, count, bytes), ..small(id) };
    session.state.event_count = writer;
    session
}

/// Returns `count` different messages of at least `bytes` bytes. Each text begins with the writer's number and the
/// message's index.
pub(super) fn messages(writer: u64, count: usize, bytes: usize) -> Vec<Message> {
    let message = |index| {
        let mut text = format!("{writer}/{index} ");
        while text.len() < bytes {
            text.push_str("All human beings are born free and equal. ");
        }
        match index % 2 {
            0 => Message::user(text),
            _ => Message::assistant(text),
        }
    };
    (0..count).map(message).collect()
}

/// Returns a session with every kind of content block, in every form.
#[expect(clippy::expect_used, reason = "the JSON is part of this file")]
pub(super) fn everything(id: impl Into<String>) -> Session {
    let messages = json!([
        {"role": "system", "content": [{"type": "text", "text": "Instructions in between"}]},
        {"role": "user", "content": []},
        {"role": "user", "content": media()},
        {"role": "assistant", "content": response()},
        {"role": "user", "content": results()},
    ]);
    let mut messages: Vec<Message> = serde_json::from_value(messages).expect("messages");
    messages.extend(texts().map(Message::user));
    Session { messages, state: state(), ..small(id) }
}

/// Returns the content of a user message, with images and documents of every form.
fn media() -> Value {
    let (url, data) = ("https://example.org/ü?a=b&c", "iVBORw0KGgo=");
    json!([
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "image", "source": {"type": "url", "url": url}},
        {"type": "document", "source": {"type": "base64_pdf", "data": data}},
        {"type": "document", "source": {"type": "plain_text", "data": "text"}},
        {"type": "document", "source": {"type": "url", "url": ""}},
    ])
}

/// Returns the content of an assistant message, with reasoning, raw blocks and tool calls of every form.
fn response() -> Value {
    let call = |id, input| json!({"type": "tool_use", "id": id, "name": "search", "input": input});
    let raw = |portable| json!({"type": "raw", "provider": "vendor", "json": values(), "portable": portable});
    json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "compaction", "content": "Before."},
        raw(Value::Null),
        raw(json!({"type": "text", "text": "cited"})),
        raw(call("inner", json!({}))),
        call("call-1", values()),
        call("call-2", Value::Null),
        call("call-3", floats()),
    ])
}

/// Returns the content of a user message, with tool results of every form.
fn results() -> Value {
    let result = |id, is_error, content| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error});
    let text = |text| json!({"type": "text", "text": text});
    let link = json!({"uri": "a:b", "name": "b", "title": "", "size": u64::MAX});
    let resources = json!([
        {"type": "audio", "media_type": "audio/wav", "data": "UklGRg=="},
        {"type": "resource", "resource": {"uri": "file:///a b\n", "text": "\u{0}", "mime_type": "text/plain"}},
        {"type": "resource", "resource": {"uri": "a:b", "blob": ""}},
        {"type": "resource_link", "resource": link},
    ]);
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://example.org"}});
    json!([
        result("inner", false, json!([])),
        result("call-1", false, json!([text("\u{0}"), image])),
        result("call-2", true, json!([text("")])),
        result("call-3", true, resources),
        text("And now?"),
    ])
}

/// Returns a state in which no field has its default value.
pub(super) fn state() -> SessionState {
    let mut state = SessionState {
        cwd: "/home/ユーザー/a b/\"c\"\n".into(),
        token_usage: TokenUsage {
            input_tokens: usize::MAX,
            output_tokens: 1,
            cache_read_tokens: Some(0),
            cache_creation_tokens: None,
            reasoning_tokens: Some(7),
            iterations: None,
            cost: None,
        },
        event_count: u64::MAX,
        ..SessionState::default()
    };
    state.custom.insert("theme".into(), json!("dark"));
    state.custom.insert(String::new(), Value::Null);
    state.custom.insert("a key\u{0}with 字".into(), values());
    state
}

/// Returns an object with JSON values of every kind. Its keys are not sorted.
pub(super) fn values() -> Value {
    json!({
        "z": [null, true, false, "", [], {}, [[[]]]],
        "a": {"$type": "text", "type": "tool_use", "id": 1},
        "": 0,
        "numbers": [u64::MAX, i64::MIN, -1, 0.1, -0.0, 1e300, 5e-324, 1.7976931348623157e308],
        "Z": "\u{0}",
        "b\u{301}": "\u{1F600}",
    })
}

/// Returns 500 random floating-point numbers. A parser that does not round correctly changes the last bit of some.
fn floats() -> Value {
    let mut random = Random::new(17);
    let floats = std::iter::repeat_with(|| f64::from_bits(random.next()));
    floats.filter(|float| float.is_finite()).take(500).collect()
}

/// Returns texts that incorrect code may change, such as control characters, quotes and empty texts.
fn texts() -> impl Iterator<Item = String> {
    let controls = (0u8..32).map(char::from).collect();
    let texts = [
        "",
        " ",
        "\n\r\n\t",
        "\u{0}",
        "a\u{0}b",
        "\u{7f}\u{80}\u{2028}\u{2029}\u{feff}\u{fffd}\u{ffff}\u{10ffff}",
        "é and e\u{301} are two texts",
        "日本語 עברית العربية 👩\u{200d}👩\u{200d}👧",
        r#"quotes " ' ` and \ and \n and \u0000 and $1 and %s and ; DROP TABLE sessions; --"#,
        "{\"role\":\"user\",\"content\":[]}",
    ];
    texts.map(String::from).into_iter().chain([controls])
}
