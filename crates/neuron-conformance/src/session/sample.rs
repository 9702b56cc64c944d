//! Sessions to store.

use chrono::{DateTime, Utc};
use neuron_types::{
    ContentBlock, ContentItem, DocumentSource, EmbeddedResource, ImageSource, Message,
    ResourceLink, Role, Session, SessionState, TokenUsage,
};
use serde_json::{Value, json};

use crate::random::Random;

/// A moment with nanoseconds, which many databases cut.
pub(super) fn moment(seconds: i64, nanoseconds: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, nanoseconds).unwrap_or_default()
}

/// A turn of two messages.
pub(super) fn small(id: impl Into<String>) -> Session {
    let mut session = Session::new(id, "/srv/project".into());
    session.created_at = moment(1_700_000_000, 123_456_789);
    session.updated_at = moment(1_700_000_001, 987_654_321);
    session.messages = vec![Message::user("What is Rust?"), Message::assistant("A language.")];
    session
}

/// A session with so many messages, which differ, and name their writer.
pub(super) fn written(
    id: impl Into<String>,
    writer: u64,
    messages: usize,
    bytes: usize,
) -> Session {
    let mut session = small(id);
    session.messages = (0..messages).map(|index| message(writer, index, bytes)).collect();
    session.state.event_count = writer;
    session
}

/// A message that names its writer and place.
pub(super) fn message(writer: u64, index: usize, bytes: usize) -> Message {
    let mut text = format!("{writer}/{index} ");
    while text.len() < bytes {
        text.push_str("All human beings are born free and equal. ");
    }
    match index % 2 {
        0 => Message::user(text),
        _ => Message::assistant(text),
    }
}

/// Every kind of block, in every form.
pub(super) fn everything(id: impl Into<String>) -> Session {
    let mut session = small(id);
    session.messages = vec![
        Message::system("Instructions in between"),
        Message { role: Role::User, content: vec![] },
        Message { role: Role::User, content: media() },
        Message { role: Role::Assistant, content: answer() },
        Message { role: Role::User, content: results() },
    ];
    session.messages.extend(texts().into_iter().map(Message::user));
    session.state = state();
    session
}

/// A state in which nothing is as usual.
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
        },
        event_count: u64::MAX,
        ..SessionState::default()
    };
    state.custom.insert("theme".into(), json!("dark"));
    state.custom.insert(String::new(), Value::Null);
    state.custom.insert("a key\u{0}with 字".into(), values());
    state
}

/// JSON of every kind, with keys in an order of their own.
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

/// Floating-point numbers that a careless parser changes in the last bit.
pub(super) fn floats() -> Value {
    let mut random = Random::new(17);
    let floats = std::iter::repeat_with(|| f64::from_bits(random.next()));
    floats.filter(|float| float.is_finite()).take(500).collect()
}

/// Texts that break what handles them carelessly.
fn texts() -> Vec<String> {
    let controls: String = (0u8..32).map(char::from).collect();
    [
        "",
        " ",
        "\n\r\n\t",
        "\u{0}",
        "a\u{0}b",
        &controls,
        "\u{7f}\u{80}\u{2028}\u{2029}\u{feff}\u{fffd}\u{ffff}\u{10ffff}",
        "é and e\u{301} are two texts",
        "日本語 עברית العربية 👩\u{200d}👩\u{200d}👧",
        r#"quotes " ' ` and \ and \n and \u0000 and $1 and %s and ; DROP TABLE sessions; --"#,
        "{\"role\":\"user\",\"content\":[]}",
    ]
    .map(String::from)
    .to_vec()
}

fn media() -> Vec<ContentBlock> {
    let data = || "iVBORw0KGgo=".to_owned();
    vec![
        ContentBlock::Text("Look:".into()),
        ContentBlock::Image {
            source: ImageSource::Base64 { media_type: "image/png".into(), data: data() },
        },
        ContentBlock::Image {
            source: ImageSource::Url { url: "https://example.org/ü?a=b&c".into() },
        },
        ContentBlock::Document { source: DocumentSource::Base64Pdf { data: data() } },
        ContentBlock::Document { source: DocumentSource::PlainText { data: "text".into() } },
        ContentBlock::Document { source: DocumentSource::Url { url: String::new() } },
    ]
}

fn answer() -> Vec<ContentBlock> {
    let call =
        |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "search".into(), input };
    let raw = |portable| ContentBlock::Raw { provider: "vendor".into(), json: values(), portable };
    vec![
        ContentBlock::Thinking { thinking: "Hm.".into(), signature: "c2ln".into() },
        ContentBlock::Thinking { thinking: String::new(), signature: String::new() },
        ContentBlock::RedactedThinking { data: "AAAA".into() },
        ContentBlock::Compaction { content: "Before.".into() },
        raw(None),
        raw(Some(Box::new(ContentBlock::Text("cited".into())))),
        raw(Some(Box::new(call("inner", json!({}))))),
        call("call-1", values()),
        call("call-2", json!(null)),
        call("call-3", floats()),
    ]
}

fn sound_and_resources() -> Vec<ContentItem> {
    let text = EmbeddedResource::text("file:///a b\n", "\u{0}").with_mime_type("text/plain");
    let link = ResourceLink {
        title: Some(String::new()),
        size: Some(u64::MAX),
        ..ResourceLink::new("a:b", "b")
    };
    vec![
        ContentItem::Audio { media_type: "audio/wav".into(), data: "UklGRg==".into() },
        ContentItem::Resource { resource: text },
        ContentItem::Resource { resource: EmbeddedResource::blob("a:b", "") },
        ContentItem::ResourceLink { resource: link },
    ]
}

fn results() -> Vec<ContentBlock> {
    let result = |id: &str, content, is_error| ContentBlock::ToolResult {
        tool_use_id: id.into(),
        content,
        is_error,
    };
    let image =
        ContentItem::Image { source: ImageSource::Url { url: "https://example.org".into() } };
    vec![
        result("inner", vec![], false),
        result("call-1", vec![ContentItem::Text("\u{0}".into()), image], false),
        result("call-2", vec![ContentItem::Text(String::new())], true),
        result("call-3", sound_and_resources(), true),
        ContentBlock::Text("And now?".into()),
    ]
}
