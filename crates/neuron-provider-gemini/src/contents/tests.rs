//! Tests of the conversation in a request.

use neuron_model::{ContentItem, EmbeddedResource, ImageSource, RequestRef};
use serde_json::json;

use super::*;
use crate::model::VERTEX;
use crate::names::NAMES;

const V: &str = "gcp.gemini";
const DUMMY: &str = "skip_thought_signature_validator";

fn converted(messages: &[Message], target: Target<'_>) -> Result<Value, ProviderError> {
    let request = RequestRef { messages, ..RequestRef::default() };
    let renamed = NAMES.rename(request);
    let contents = contents(renamed.request().messages, target)?;
    Ok(serde_json::to_value(contents).unwrap())
}

fn written(messages: &[Message], generation: Generation) -> Value {
    converted(messages, Target { vendor: V, model: "m", generation }).unwrap()
}

#[track_caller]
fn check(messages: &[Message], expected: Value) {
    assert_eq!(written(messages, Generation::Three), expected);
}

fn model(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::Assistant, content }
}

fn user(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::User, content }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str, name: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input: json!({"a": 1}) }
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

fn item(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

#[test]
fn text_and_media_become_parts() {
    let png = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
    let url = ImageSource::Url { url: "https://a/b.jpg".into() };
    let documents = [
        DocumentSource::Base64Pdf { data: "aGk=".into() },
        DocumentSource::PlainText { data: "plain".into() },
        DocumentSource::Url { url: "gs://b/c.pdf".into() },
    ];
    let mut content = vec![text("hi"), text(""), png.into(), url.into()];
    content.extend(documents.map(ContentBlock::from));
    content.push(ContentBlock::Compaction { content: "so far".into() });
    content.push(raw(
        V,
        json!({"fileData": {"fileUri": "gs://v"}, "videoMetadata": {"fps": 1}}),
        None,
    ));
    check(
        &[user(content)],
        json!([{"role": "user", "parts": [
            {"text": "hi"},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"fileData": {"fileUri": "https://a/b.jpg", "mimeType": "image/jpeg"}},
            {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
            {"text": "plain"},
            {"fileData": {"fileUri": "gs://b/c.pdf", "mimeType": "application/pdf"}},
            {"text": "so far"},
            {"fileData": {"fileUri": "gs://v"}, "videoMetadata": {"fps": 1}},
        ]}]),
    );
}

#[test]
fn own_parts_are_sent_back_unchanged() {
    let signed = json!({"text": "b", "thoughtSignature": "s"});
    let empty = json!({"text": "", "thoughtSignature": "t"});
    let called =
        json!({"functionCall": {"name": "f", "args": {}, "id": "x"}, "thoughtSignature": "u"});
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let thought = ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() };
    let content = vec![
        thought,
        text("a"),
        raw(V, signed.clone(), Some(text("b"))),
        raw(V, code.clone(), None),
        raw(V, called.clone(), Some(call("x", "f"))),
        raw(V, empty.clone(), None),
    ];
    let message = model(content);
    let stored = serde_json::to_string(&message).unwrap();
    let message: Message = serde_json::from_str(&stored).unwrap();
    check(
        &[Message::user("hi"), message, user(vec![result("x", vec![item("1")], false)])],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true}, {"text": "a"}, signed, code, called, empty,
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "x", "name": "f", "response": {"output": "1"}}},
            ]},
        ]),
    );
}

/// Models before Gemini 3 have no field for ids, and reject a request with one.
#[test]
fn old_model_gets_no_ids() {
    let json = json!({"functionCall": {"id": "x", "name": "f", "args": {"id": 1}}});
    let called = raw(V, json, Some(call("x", "f")));
    let messages =
        [Message::user("hi"), model(vec![called]), user(vec![result("x", vec![item("1")], false)])];
    let contents = written(&messages, Generation::BeforeThree);
    assert_eq!(
        contents.as_array().unwrap()[1..],
        [
            json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"id": 1}}}]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "1"}}},
            ]}),
        ]
    );
    for generation in [Generation::Three, Generation::Unknown] {
        let contents = written(&messages, generation);
        assert_eq!(contents[1]["parts"][0]["functionCall"]["id"], "x");
        assert_eq!(contents[2]["parts"][0]["functionResponse"]["id"], "x");
    }
}

/// The API rejects a signature of another model.
#[test]
fn signature_is_sent_to_its_own_model_only() {
    let signed = |mut json: Value, by: &str, portable: Option<ContentBlock>| {
        json["thoughtSignature"] = json!("s");
        json[SIGNED_BY] = json!(by);
        raw(V, json, portable)
    };
    let calls = |by: &str| {
        let json = |id: &str| json!({"functionCall": {"name": "f", "args": {}, "id": id}});
        vec![
            signed(json!({"text": "a"}), by, Some(text("a"))),
            signed(json("1"), by, Some(call("1", "f"))),
            signed(json("2"), by, Some(call("2", "f"))),
            signed(json!({"text": ""}), by, None),
        ]
    };
    let parts = |by: &str, generation| {
        let results = user(vec![result("1", vec![], false), result("2", vec![], false)]);
        let messages = [Message::user("hi"), model(calls(by)), results];
        written(&messages, generation)[1]["parts"].clone()
    };
    let part = |id: &str, signature: Option<&str>| {
        let mut part = json!({"functionCall": {"name": "f", "args": {}, "id": id}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    };
    assert_eq!(
        parts("m", Generation::Three),
        json!([
            {"text": "a", "thoughtSignature": "s"}, part("1", Some("s")), part("2", Some("s")),
            {"text": "", "thoughtSignature": "s"},
        ])
    );
    assert_eq!(
        parts("another", Generation::Three),
        json!([{"text": "a"}, part("1", Some(DUMMY)), part("2", None)])
    );
    assert_eq!(
        parts("another", Generation::Unknown),
        json!([{"text": "a"}, part("1", None), part("2", None)])
    );
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    assert_eq!(parts("another", Generation::BeforeThree), json!([{"text": "a"}, call, call]));
}

#[test]
fn parts_that_the_api_rejects_are_left_out() {
    let bare = json!({"thoughtSignature": "s"});
    let content = vec![
        raw(V, bare, None),
        raw(V, json!({"thoughtSignature": "s", "mediaProcessing": {}}), None),
        raw(V, json!({"mediaResolution": {}}), None),
        raw(V, json!({}), None),
        raw(V, json!("?"), None),
        // A call that must not run.
        raw(V, json!({"functionCall": {"name": "f"}}), None),
    ];
    check(
        &[Message::user("hi"), model(content)],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"thoughtSignature": "s", "text": ""}]},
        ]),
    );
}

#[test]
fn blocks_of_other_vendors_are_sent_in_their_portable_form() {
    let signed = ContentBlock::Thinking { thinking: "secret".into(), signature: "s".into() };
    let content = vec![
        signed,
        ContentBlock::RedactedThinking { data: "secret".into() },
        raw("anthropic", json!({"type": "text", "citations": []}), Some(text("cited"))),
        raw("gcp.vertex_ai", json!({"text": "v", "thoughtSignature": "secret"}), Some(text("v"))),
        raw("openai", json!({"type": "reasoning"}), None),
        raw("openai", json!({"type": "function_call"}), Some(call("toolu_1", "f"))),
    ];
    check(
        &[Message::user("hi"), model(content), user(vec![result("toolu_1", vec![], false)])],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "cited"},
                {"text": "v"},
                {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": DUMMY},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": ""}}}]},
        ]),
    );
}

/// Gemini 3 checks the first call of each step, and the other calls of a step are never signed.
#[test]
fn first_unsigned_call_of_each_step_gets_the_documented_signature() {
    let own = |id: &str, signature: Option<&str>| {
        let mut json = json!({"functionCall": {"name": "f", "id": id}});
        if let Some(signature) = signature {
            json["thoughtSignature"] = json!(signature);
        }
        raw(V, json, Some(call(id, "f")))
    };
    let results = |ids: &[&str]| user(ids.iter().map(|id| result(id, vec![], false)).collect());
    let messages = [
        Message::user("hi"),
        model(vec![text("a"), call("1", "f"), call("2", "f")]),
        results(&["1", "2"]),
        model(vec![own("3", None), own("4", None)]),
        results(&["3", "4"]),
        model(vec![own("5", Some("s")), own("6", Some(""))]),
        results(&["5", "6"]),
    ];
    let signatures = |generation| {
        let contents = written(&messages, generation);
        let contents = contents.as_array().unwrap().clone();
        let parts =
            contents.into_iter().flat_map(|content| content["parts"].as_array().unwrap().clone());
        let calls = parts.filter(|part| part.get("functionCall").is_some());
        calls.map(|part| part["thoughtSignature"].clone()).collect::<Vec<_>>()
    };
    let none = || json!(null);
    assert_eq!(
        signatures(Generation::Three),
        [json!(DUMMY), none(), json!(DUMMY), none(), json!("s"), json!("")]
    );
    for generation in [Generation::BeforeThree, Generation::Unknown] {
        assert_eq!(signatures(generation), [none(), none(), none(), none(), json!("s"), json!("")]);
    }
}

#[test]
fn results_form_a_content_of_their_own_in_the_order_of_the_calls() {
    let messages = [
        Message::user("hi"),
        model(vec![call("1", "f"), call("2", "g")]),
        user(vec![
            result("2", vec![item("two"), item("lines")], false),
            result("1", vec![item(" ")], true),
            text("and?"),
        ]),
    ];
    let contents = written(&messages, Generation::BeforeThree);
    assert_eq!(
        contents.as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"error": "the tool failed without a message"}}},
                {"functionResponse": {"name": "g", "response": {"output": "two\nlines"}}},
            ]}),
            json!({"role": "user", "parts": [{"text": "and?"}]}),
        ]
    );
}

/// An id that repeats refers to the latest call, because some vendors number the calls of each response anew.
#[test]
fn result_refers_to_the_latest_call_with_its_id() {
    let messages = [
        Message::user("hi"),
        model(vec![call("1", "f")]),
        user(vec![result("1", vec![], false)]),
        model(vec![call("1", "g")]),
        user(vec![result("1", vec![], true)]),
    ];
    let contents = written(&messages, Generation::Three);
    let name = |index: usize| contents[index]["parts"][0]["functionResponse"]["name"].clone();
    assert_eq!([name(2), name(4)], ["f", "g"]);
}

/// The API rejects a request with an invalid name, so one such call in the conversation made every later turn fail.
#[test]
fn invalid_names_of_calls_are_replaced() {
    let own = json!({"functionCall": {"name": "_2nd", "args": {}, "id": "x"}});
    let messages = [
        Message::user("hi"),
        model(vec![call("1", ""), call("2", "1st"), raw(V, own, Some(call("x", "2nd")))]),
        user(["x", "2", "1"].map(|id| result(id, vec![], false)).to_vec()),
    ];
    let contents = written(&messages, Generation::BeforeThree);
    let names = |content: usize, key: &str| {
        let parts = contents[content]["parts"].as_array().unwrap().iter();
        parts.map(|part| part[key]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(1, "functionCall"), ["unnamed", "_1st", "_2nd"]);
    assert_eq!(names(2, "functionResponse"), ["unnamed", "_1st", "_2nd"]);
}

#[test]
fn result_without_call_is_an_error() {
    let messages = [Message::user("hi"), user(vec![result("1", vec![], false)])];
    let error = converted(&messages, Target::new(V, "gemini-3.8-flash"));
    assert_eq!(
        error.err().unwrap().to_string(),
        "invalid request: the tool result `1` has no tool call in the messages before it: repair the history with \
         transcript::repair"
    );
}

#[test]
fn media_in_results_are_inside_or_follow() {
    let image = |kind: &str| {
        ContentItem::from(ImageSource::Base64 { media_type: kind.into(), data: "aGk=".into() })
    };
    let pdf = EmbeddedResource::blob("file:///a", "aGk=").with_mime_type("application/pdf");
    let url = ImageSource::Url { url: "https://a/b.png".into() };
    let content = vec![
        item("see"),
        image("image/png"),
        image("image/gif"),
        ContentItem::Resource { resource: pdf },
        url.into(),
    ];
    let messages =
        [Message::user("hi"), model(vec![call("1", "f")]), user(vec![result("1", content, false)])];
    let png = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    let pdf = json!({"inlineData": {"mimeType": "application/pdf", "data": "aGk="}});
    let file = json!({"fileData": {"fileUri": "https://a/b.png", "mimeType": "image/png"}});
    let new = written(&messages, Generation::Three);
    assert_eq!(
        new.as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [{"functionResponse": {
                "name": "f",
                "response": {"output": "see\n[image]\n[the file follows]"},
                "parts": [png, pdf],
            }}]}),
            json!({"role": "user", "parts": [file]}),
        ]
    );
    let old = written(&messages, Generation::BeforeThree);
    let output = "see\n[the file follows]\n[image]\n[the file follows]\n[the file follows]";
    assert_eq!(
        old.as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [{"functionResponse": {
                "name": "f", "response": {"output": output},
            }}]}),
            json!({"role": "user", "parts": [png, pdf, file]}),
        ]
    );
}

/// An image of a type that the API rejects would make every later turn fail.
#[test]
fn image_of_a_rejected_type_in_a_result_becomes_text() {
    let url = |url: &str| ContentItem::from(ImageSource::Url { url: url.into() });
    let content = vec![
        url("data:image/gif;base64,aGk="),
        url("data:image/svg+xml,<svg/>"),
        url("https://a/b.gif"),
        url("data:image/heic;base64,aGk="),
        url("data:image/png;base64,aGk="),
    ];
    let messages =
        [Message::user("hi"), model(vec![call("1", "f")]), user(vec![result("1", content, false)])];
    let inline = |kind: &str| json!({"inlineData": {"mimeType": kind, "data": "aGk="}});
    let contents = written(&messages, Generation::Three);
    assert_eq!(
        contents.as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [{"functionResponse": {
                "name": "f",
                "response": {"output": "[image]\n[image]\n[image]\n[the file follows]"},
                "parts": [inline("image/png")],
            }}]}),
            json!({"role": "user", "parts": [inline("image/heic")]}),
        ]
    );
}

/// Vertex AI rejects a file without a type, which made every later turn fail
/// (<https://github.com/langchain-ai/langchainjs/pull/8947>).
#[test]
fn url_without_an_extension_in_a_result_is_text_on_vertex() {
    let source = ImageSource::Url { url: "https://cdn.example/i?id=7".into() };
    let messages = [
        Message::user("hi"),
        model(vec![call("1", "f")]),
        user(vec![result("1", vec![source.clone().into()], false)]),
    ];
    let sent = |vendor| {
        let contents = converted(&messages, Target::new(vendor, "gemini-3.8-flash")).unwrap();
        contents.as_array().unwrap()[2..].to_vec()
    };
    let response = |output: &str| {
        let response = json!({"name": "f", "response": {"output": output}});
        json!({"role": "user", "parts": [{"functionResponse": response}]})
    };
    let file = json!({"fileData": {"fileUri": "https://cdn.example/i?id=7"}});
    assert_eq!(sent(V), [response("[the file follows]"), json!({"role": "user", "parts": [file]})]);
    assert_eq!(sent(VERTEX), [response("[image]")]);
    let asked = [user(vec![source.into()])];
    assert!(converted(&asked, Target::new(V, "m")).is_ok());
    let error = converted(&asked, Target::new(VERTEX, "m")).err().unwrap();
    assert!(error.to_string().contains("Vertex AI needs the type"), "{error}");
}

#[test]
fn image_of_a_rejected_type_in_a_message_is_an_error() {
    for source in [
        ImageSource::Base64 { media_type: "image/gif".into(), data: "aGk=".into() },
        ImageSource::Url { url: "data:image/gif;base64,aGk=".into() },
        ImageSource::Url { url: "https://a/b.GIF?x".into() },
    ] {
        let messages = [user(vec![source.into()])];
        let error = converted(&messages, Target::new(V, "gemini-3.8-flash")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "invalid request: Gemini does not accept an image of the type `image/gif`: send the image as PNG, JPEG, \
             WebP, HEIC or HEIF, in base64"
        );
    }
    let jpg = ImageSource::Base64 { media_type: "image/jpg".into(), data: "aGk=".into() };
    check(
        &[user(vec![jpg.into()])],
        json!([{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}},
        ]}]),
    );
}

#[test]
fn contents_alternate_as_the_api_requires() {
    check(
        &[
            Message::user("hi"),
            Message::assistant("a"),
            Message::assistant(""),
            model(vec![call("1", "f")]),
            user(vec![result("1", vec![], false)]),
            Message::system("be brief"),
            Message::user("go on"),
            user(Vec::new()),
        ],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "a"},
                {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": DUMMY},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": ""}}}]},
            {"role": "user", "parts": [{"text": "be brief"}]},
            {"role": "user", "parts": [{"text": "go on"}]},
        ]),
    );
    check(&[], json!([]));
}

#[test]
fn arguments_are_sent_as_an_object() {
    for (input, args) in [
        (json!(null), json!({})),
        (json!([1]), json!({"input": [1]})),
        (json!({"invalid_json": "{"}), json!({"invalid_json": "{"})),
    ] {
        let call = ContentBlock::ToolUse { id: "1".into(), name: "f".into(), input };
        let contents = written(&[model(vec![call])], Generation::Three);
        assert_eq!(contents[0]["parts"][0]["functionCall"]["args"], args);
    }
}
