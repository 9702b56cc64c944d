//! Tests of the conversation in a request. The server of `neuron-testing` must accept each conversation.

mod cache_points;

use neuron_model::{ContentItem, EmbeddedResource, ImageSource, RequestRef, ThinkingConfig};

use super::*;
use crate::content::{Origin, Reader};
use crate::request::Settings;
use crate::request::tests::{CLAUDE, LLAMA, MISTRAL, NOVA, written};

/// Returns the messages of a request to a model.
#[track_caller]
fn sent(model: &str, messages: &[Message]) -> Value {
    let request = RequestRef { model, messages, ..Default::default() };
    written(request, Settings::default())["messages"].clone()
}

#[track_caller]
fn check(model: &str, messages: &[Message], expected: Value) {
    assert_eq!(sent(model, messages), expected, "{model}");
}

fn assistant(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::Assistant, content }
}

fn user(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::User, content }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input: json!({"a": 1}) }
}

fn result(id: &str, content: Vec<ContentItem>) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error: false }
}

fn item(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn pdf() -> ContentBlock {
    ContentBlock::Document { source: DocumentSource::Base64Pdf { data: "aGk=".into() } }
}

fn png() -> ContentBlock {
    let source = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
    ContentBlock::Image { source }
}

fn sent_pdf(number: usize) -> Value {
    json!({"document": {
        "format": "pdf", "name": format!("Document {number}"), "source": {"bytes": "aGk="},
    }})
}

fn sent_call(id: &str) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": "look", "input": {"a": 1}}})
}

fn sent_result(id: &str, text: &str) -> Value {
    json!({"toolResult": {"toolUseId": id, "content": [{ "text": text }]}})
}

#[test]
fn neighbouring_messages_are_joined_and_blank_texts_are_left_out() {
    check(
        CLAUDE,
        &[
            Message::user("a"),
            Message::system("b"),
            assistant(vec![text(" "), text("")]),
            user(vec![text("\n"), ContentBlock::Compaction { content: "c".into() }]),
            Message::assistant("d"),
            Message::assistant("e"),
            Message::user("f"),
        ],
        json!([
            {"role": "user", "content": [{"text": "a"}, {"text": "b"}, {"text": "c"}]},
            {"role": "assistant", "content": [{"text": "d"}, {"text": "e"}]},
            {"role": "user", "content": [{"text": "f"}]},
        ]),
    );
}

/// The API rejects a conversation without messages, and new models of Claude reject one that ends with a response:
/// <https://github.com/anomalyco/opencode/issues/29760>. Without the filler, the responses around it would be joined.
#[test]
fn message_with_blank_texts_alone_becomes_a_filler() {
    let blank = || user(vec![text(" \n")]);
    let filler = json!({"role": "user", "content": [{"text": "."}]});
    let said = |text: &str| json!({"role": "assistant", "content": [{ "text": text }]});
    for model in [CLAUDE, NOVA, LLAMA] {
        check(model, &[blank()], json!([filler]));
        check(model, &[blank(), user(vec![]), blank()], json!([filler]));
        let mut messages = vec![blank(), Message::assistant("a"), blank()];
        let mut expected = vec![filler.clone(), said("a"), filler.clone()];
        check(model, &messages, json!(expected));
        messages.extend([Message::assistant("b"), Message::user("c")]);
        expected.extend([said("b"), json!({"role": "user", "content": [{"text": "c"}]})]);
        check(model, &messages, json!(expected));
    }
}

/// New models of Claude continue no response (<https://platform.claude.com/docs/en/about-claude/models/migration-guide>),
/// and nor do Llama's (<https://github.com/i-am-bee/beeai-framework/issues/753>). Old models of Claude reject white space
/// at its end.
#[test]
fn response_that_another_vendor_paused_is_followed_by_a_filler() {
    let server_call = || raw("anthropic", json!({"type": "server_tool_use", "id": "s"}), None);
    let paused = [Message::user("hi"), assistant(vec![text("a \n"), server_call()])];
    let hi = json!({"role": "user", "content": [{"text": "hi"}]});
    let said = json!({"role": "assistant", "content": [{"text": "a \n"}]});
    let filler = json!({"role": "user", "content": [{"text": "."}]});
    for model in [CLAUDE, "global.anthropic.claude-opus-5-5", NOVA, LLAMA] {
        check(model, &paused, json!([hi, said, filler]));
        check(model, &[paused[0].clone(), assistant(vec![server_call()])], json!([hi]));
    }
    // A caller may let the model continue its own text.
    let begun = [Message::user("hi"), Message::assistant("{")];
    let said = json!({"role": "assistant", "content": [{"text": "{"}]});
    check(LLAMA, &begun, json!([hi, said]));
}

#[test]
fn text_of_documents_stays_when_a_message_is_joined() {
    let messages = [user(vec![pdf()]), assistant(vec![]), Message::user("more")];
    let first = sent(CLAUDE, &messages[..1]);
    let mut content = first[0]["content"].as_array().unwrap().clone();
    assert_eq!(content[0], json!({ "text": DOCUMENTS }));
    content.push(json!({"text": "more"}));
    check(CLAUDE, &messages, json!([{"role": "user", "content": content}]));
}

/// Claude rejects a budget in a turn that another vendor's model has begun:
/// <https://github.com/anomalyco/opencode/issues/3077>.
#[test]
fn budget_is_left_out_in_a_turn_without_reasoning() {
    let thought = |signature: &str| ContentBlock::Thinking {
        thinking: "hm".into(),
        signature: signature.into(),
    };
    let hi = || Message::user("hi");
    let results = |id: &str| user(vec![result(id, vec![item("1")])]);
    for (messages, expected) in [
        (vec![hi()], true),
        (vec![hi(), assistant(vec![call("x")]), results("x")], false),
        (vec![hi(), assistant(vec![thought(""), call("x")]), results("x")], false),
        (vec![hi(), assistant(vec![thought("s"), call("x")]), results("x")], true),
        (
            vec![
                hi(),
                assistant(vec![thought("s"), call("x")]),
                results("x"),
                assistant(vec![call("y")]),
                results("y"),
            ],
            true,
        ),
        (vec![hi(), assistant(vec![call("x")]), results("x"), Message::user("go on")], true),
        (vec![hi(), assistant(vec![call("x")]), results("x"), Message::user(" ")], false),
    ] {
        let thinking = Some(ThinkingConfig::Enabled { budget_tokens: 1024 });
        let request =
            RequestRef { model: CLAUDE, messages: &messages, thinking, ..Default::default() };
        let fields = &written(request, Settings::default())["additionalModelRequestFields"];
        assert_eq!(fields.get("thinking").is_some(), expected, "{messages:?}");
    }
}

#[test]
fn conversation_that_begins_with_the_assistant_gets_a_first_message() {
    let messages = [Message::assistant("a"), Message::user("b")];
    let rest = json!([
        {"role": "assistant", "content": [{"text": "a"}]},
        {"role": "user", "content": [{"text": "b"}]},
    ]);
    check(CLAUDE, &messages, rest.clone());
    check(NOVA, &messages, json!([{"role": "user", "content": [{"text": "."}]}, rest[0], rest[1]]));
}

#[test]
fn results_come_first_in_one_message() {
    check(
        CLAUDE,
        &[
            Message::user("hi"),
            assistant(vec![text("a"), call("x"), call("y")]),
            user(vec![text("b"), result("y", vec![item("1")])]),
            user(vec![result("x", vec![item("2")]), png()]),
        ],
        json!([
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "assistant", "content": [{"text": "a"}, sent_call("x"), sent_call("y")]},
            {"role": "user", "content": [
                sent_result("y", "1"), sent_result("x", "2"), {"text": "b"},
                {"image": {"format": "png", "source": {"bytes": "aGk="}}},
            ]},
        ]),
    );
}

#[test]
fn content_that_must_not_be_beside_results_follows_in_its_own_message() {
    let messages = |content: ContentBlock| {
        let answers = vec![result("x", vec![item("1")]), content];
        [Message::user("hi"), assistant(vec![call("x")]), user(answers)]
    };
    let separated = |result: Value, content: Value| {
        json!([
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "assistant", "content": [sent_call("x")]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"text": "."}]},
            {"role": "user", "content": content},
        ])
    };
    let plain = sent_result("x", "1");
    check(LLAMA, &messages(text("b")), separated(plain.clone(), json!([{"text": "b"}])));
    let with_text = json!([{"text": "See the attached documents."}, sent_pdf(1)]);
    check(CLAUDE, &messages(pdf()), separated(plain, with_text));
    let object = json!({"toolResult": {"toolUseId": "x", "content": [{"json": {"output": "1"}}]}});
    check(MISTRAL, &messages(text("b")), separated(object, json!([{"text": "b"}])));
}

/// The API rejects an image within the result: <https://github.com/anomalyco/opencode/issues/49443>.
#[test]
fn image_of_a_result_follows_the_results_for_most_models() {
    let source = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
    let results = vec![
        result("x", vec![item("1"), ContentItem::Image { source }]),
        result("y", vec![item("2")]),
    ];
    let messages = [Message::user("hi"), assistant(vec![call("x"), call("y")]), user(results)];
    let image = json!({"image": {"format": "png", "source": {"bytes": "aGk="}}});
    let outcome =
        |file: &Value| json!({"toolResult": {"toolUseId": "x", "content": [{"text": "1"}, file]}});
    let note = json!({"text": "[the file follows]"});
    for model in ["global.openai.gpt-6-sol", "us.xai.grok-4-6", "google.gemma-3-4b-it", "opaque"] {
        let content = json!([outcome(&note), sent_result("y", "2"), image]);
        assert_eq!(sent(model, &messages)[2]["content"], content, "{model}");
    }
    for model in [CLAUDE, NOVA, LLAMA] {
        let content = json!([outcome(&image), sent_result("y", "2")]);
        assert_eq!(sent(model, &messages)[2]["content"], content, "{model}");
    }
}

#[test]
fn documents_have_a_text_beside_them_and_different_names() {
    let resource = EmbeddedResource::blob("a:b", "aGk=").with_mime_type("application/pdf");
    let tool_pdf = ContentItem::Resource { resource };
    check(
        CLAUDE,
        &[
            user(vec![pdf(), text("read")]),
            assistant(vec![call("x")]),
            user(vec![result("x", vec![tool_pdf])]),
            assistant(vec![text("ok"), pdf()]),
            user(vec![pdf()]),
        ],
        json!([
            {"role": "user", "content": [sent_pdf(1), {"text": "read"}]},
            {"role": "assistant", "content": [sent_call("x")]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "x", "content": [sent_pdf(2)]}},
            ]},
            {"role": "assistant", "content": [{"text": "ok"}, {"text": "[document]"}]},
            {"role": "user", "content": [{"text": "See the attached documents."}, sent_pdf(3)]},
        ]),
    );
    let plain = DocumentSource::PlainText { data: "plain".into() };
    let messages = [user(vec![ContentBlock::Document { source: plain }])];
    check(CLAUDE, &messages, json!([{"role": "user", "content": [{"text": "plain"}]}]));
}

#[test]
fn oldest_files_of_results_beyond_the_limits_become_texts() {
    let tool_png = || {
        let source = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
        ContentItem::Image { source }
    };
    let tool_pdf = || {
        let resource = EmbeddedResource::blob("a:b", "aGk=").with_mime_type("application/pdf");
        ContentItem::Resource { resource }
    };
    let turns = |number: usize, item: &dyn Fn() -> ContentItem| {
        let ids = (0..number).map(|index| format!("x{index}"));
        let turn = |id: String| [assistant(vec![call(&id)]), user(vec![result(&id, vec![item()])])];
        ids.flat_map(turn).collect::<Vec<_>>()
    };
    let outputs = |messages: Value, kind: &str| -> Vec<bool> {
        let messages = messages.as_array().unwrap().clone().into_iter().skip(2).step_by(2);
        let is_file = |message: Value| match &message["content"][0]["toolResult"]["content"][0] {
            text if text["text"] == format!("[{kind}]") => false,
            file => file[kind].is_object(),
        };
        messages.map(is_file).collect()
    };
    let first = user(vec![text("hi"), png()]);
    for (over, number) in [(0, 19), (1, 20), (3, 22)] {
        let messages = [std::slice::from_ref(&first), &turns(number, &tool_png)[..]].concat();
        let expected: Vec<_> = (0..number).map(|index| index >= over).collect();
        assert_eq!(outputs(sent(CLAUDE, &messages), "image"), expected);
    }
    let first = user(vec![text("hi"), pdf()]);
    let messages = [std::slice::from_ref(&first), &turns(6, &tool_pdf)[..]].concat();
    let messages = sent(CLAUDE, &messages);
    // The names of the other documents do not change.
    assert_eq!(messages[12]["content"][0]["toolResult"]["content"][0], sent_pdf(7));
    assert_eq!(outputs(messages, "document"), [false, false, true, true, true, true]);
    let messages = [&[first], &turns(20, &tool_png)[..]].concat();
    assert!(!outputs(sent(CLAUDE, &messages), "image")[0]);
    assert!(outputs(sent(NOVA, &messages), "image")[0]);
}

#[test]
fn raw_documents_have_a_text_beside_them_and_different_names() {
    let own = |name: &str| json!({"document": {"format": "csv", "name": name, "source": {"bytes": "aGk="}}});
    let named = |name: &str| raw("aws.bedrock", own(name), None);
    check(
        CLAUDE,
        &[
            user(vec![named("Document 1")]),
            assistant(vec![text("ok")]),
            user(vec![pdf(), named("Document 1"), text("read")]),
        ],
        json!([
            {"role": "user", "content": [{"text": "See the attached documents."}, own("Document 1")]},
            {"role": "assistant", "content": [{"text": "ok"}]},
            {"role": "user", "content": [
                {"document": {
                    "format": "pdf", "name": "Document 1 (2)", "source": {"bytes": "aGk="},
                }},
                own("Document 1 (3)"),
                {"text": "read"},
            ]},
        ]),
    );
}

#[test]
fn ids_and_names_of_other_vendors_are_replaced_and_still_match() {
    let call = |id: &str| ContentBlock::ToolUse {
        id: id.into(),
        name: "fs.read".into(),
        input: json!(null),
    };
    let sent_call =
        |id: &str| json!({"toolUse": {"toolUseId": id, "name": "fs_read", "input": {}}});
    let messages = [
        Message::user("hi"),
        assistant(vec![call("f/0"), call("f_0")]),
        user(vec![result("f_0", vec![item("b")]), result("f/0", vec![item("a")])]),
        assistant(vec![call("f/0")]),
        user(vec![result("f/0", vec![item("c")])]),
    ];
    check(
        CLAUDE,
        &messages,
        json!([
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "assistant", "content": [sent_call("f_0"), sent_call("f_0_2")]},
            {"role": "user", "content": [sent_result("f_0_2", "b"), sent_result("f_0", "a")]},
            {"role": "assistant", "content": [sent_call("f_0_3")]},
            {"role": "user", "content": [sent_result("f_0_3", "c")]},
        ]),
    );
    // The JSON of a message does not change while the conversation grows.
    let whole = sent(CLAUDE, &messages);
    for end in [1, 3] {
        let part = sent(CLAUDE, &messages[..end]);
        assert_eq!(part.as_array().unwrap()[..], whole.as_array().unwrap()[..end]);
    }
}

#[test]
fn reasoning_is_sent_to_its_own_family() {
    let thinking = |thinking: &str, signature: &str| ContentBlock::Thinking {
        thinking: thinking.into(),
        signature: signature.into(),
    };
    let own = |origin: &str, said: &str| {
        let inner = json!({"reasoningText": { "text": said }});
        raw(
            "aws.bedrock",
            json!({"reasoningContent": inner, ORIGIN: origin}),
            Some(thinking(said, "")),
        )
    };
    let messages = [
        Message::user("hi"),
        assistant(vec![
            thinking("hm", "s"),
            thinking("", "t"),
            thinking("unsigned", ""),
            ContentBlock::RedactedThinking { data: "EmwK".into() },
            own("deepseek", "d"),
            own("opaque", "o"),
            text("a"),
        ]),
        Message::user("b"),
    ];
    let reasoning = |inner: Value| json!({ "reasoningContent": inner });
    let said = |said: &str| reasoning(json!({"reasoningText": { "text": said }}));
    let signed = |said: &str, signature: &str| {
        reasoning(json!({"reasoningText": {"text": said, "signature": signature}}))
    };
    for (model, expected) in [
        (
            CLAUDE,
            json!([
                signed("hm", "s"), signed("", "t"), reasoning(json!({"redactedContent": "RW13Sw=="})),
                {"text": "a"},
            ]),
        ),
        ("us.deepseek.r1-v1:0", json!([said("d"), {"text": "a"}])),
        ("opaque", json!([said("o"), {"text": "a"}])),
        (NOVA, json!([{"text": "a"}])),
    ] {
        assert_eq!(sent(model, &messages)[1]["content"], expected, "{model}");
    }
}

#[test]
fn encrypted_reasoning_of_gpt_returns_before_its_call() {
    let gpt = "global.openai.gpt-5.6-sol";
    let encrypted = json!({"reasoningContent": {"redactedContent": "RW13Sw=="}});
    let blocks = [encrypted.clone(), sent_call("x")];
    let reader = Reader::new(Origin::new(Model::new(gpt, "")));
    let content = blocks.clone().into_iter().filter_map(|block| reader.read(block)).collect();
    let messages =
        [Message::user("hi"), assistant(content), user(vec![result("x", vec![item("1")])])];
    assert_eq!(sent(gpt, &messages)[1]["content"], json!(blocks));
    for other in ["global.openai.gpt-6-sol", "openai.gpt-oss-120b-1:0", CLAUDE, NOVA] {
        assert_eq!(sent(other, &messages)[1]["content"], json!([blocks[1]]), "{other}");
    }
}

#[test]
fn files_of_the_model_are_sent_as_texts() {
    let file = json!({"format": "png", "source": {"bytes": "aGk="}});
    for kind in ["image", "document", "video", "audio"] {
        let own = raw("aws.bedrock", json!({ kind: file }), None);
        let messages =
            [Message::user("draw"), assistant(vec![text("here"), own]), Message::user("nice")];
        let content = json!([{"text": "here"}, {"text": format!("[{kind}]")}]);
        assert_eq!(sent(NOVA, &messages)[1]["content"], content);
    }
}

#[test]
fn reasoning_at_the_end_of_a_message_is_not_sent() {
    let signed = || ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() };
    let encrypted = || ContentBlock::RedactedThinking { data: "EmwK".into() };
    let (hi, more) = (json!({"text": "hi"}), json!({"text": "go on"}));
    let opus = "global.anthropic.claude-opus-5-5";
    for cut in [vec![signed()], vec![encrypted(), encrypted()], vec![signed(), text(" ")]] {
        let messages = [Message::user("hi"), assistant(cut), Message::user("go on")];
        check(opus, &messages, json!([{"role": "user", "content": [hi, more]}]));
    }
    // The reasoning before a text of the next message is not at the end.
    let parts = [assistant(vec![signed()]), assistant(vec![text("a"), encrypted()])];
    let messages = [&[Message::user("hi")], &parts[..], &[Message::user("go on")]].concat();
    let kept = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}});
    check(
        opus,
        &messages,
        json!([
            {"role": "user", "content": [hi]},
            {"role": "assistant", "content": [kept, {"text": "a"}]},
            {"role": "user", "content": [more]},
        ]),
    );
}

#[test]
fn own_blocks_are_sent_unchanged_and_others_in_their_portable_form() {
    let cited = json!({"citationsContent": {
        "content": [{"text": "b"}], "citations": [{"title": "t"}],
    }});
    let own = |json: &Value, portable| raw("aws.bedrock", json.clone(), portable);
    let content = vec![
        raw("openai", json!({"x": 1}), Some(text("a"))),
        raw("openai", json!({"x": 1}), None),
        raw("neuron", json!({"type": "pin"}), None),
        own(&cited, Some(text("b"))),
        own(&json!({"text": " "}), Some(text(" "))),
        own(&json!({"toolUse": {"input": {}}}), None),
    ];
    let messages = [assistant(content)];
    let blocks = |model: &str| {
        let conversation = Conversation::new(&messages, Model::new(model, "")).unwrap();
        serde_json::to_value(conversation.turns).unwrap()
    };
    let turn = |content: Value| json!([{"role": "assistant", "content": content}]);
    assert_eq!(blocks(CLAUDE), turn(json!([{"text": "a"}, cited])));
    assert_eq!(blocks("qwen.qwen3-32b-v1:0"), turn(json!([{"text": "a"}, {"text": "b"}])));
}

#[test]
fn citations_are_sent_without_blank_texts() {
    let cited = |texts: &[&str]| {
        let parts: Vec<_> = texts.iter().map(|text| json!({ "text": text })).collect();
        json!({"citationsContent": {"content": parts, "citations": [{"title": "t"}]}})
    };
    for (texts, kept) in
        [(&[""][..], None), (&["", " "][..], None), (&["", "b", " ", "c"][..], Some(["b c"]))]
    {
        let reader = Reader::new(Origin::new(Model::new(CLAUDE, "")));
        let mut content = vec![text("a")];
        content.extend(reader.read(cited(texts)));
        let messages = [Message::user("hi"), assistant(content), Message::user("more")];
        let mut expected = vec![json!({"text": "a"})];
        expected.extend(kept.map(|texts| cited(&texts)));
        assert_eq!(sent(CLAUDE, &messages)[1]["content"], json!(expected));
    }
}

#[test]
fn blocks_of_server_tools_return_to_their_family_and_are_never_declared() {
    let nova = "global.amazon.nova-2-lite-v1:0";
    let blocks = [
        json!({"toolUse": {
            "toolUseId": "s", "name": "nova_grounding", "input": {}, "type": "server_tool_use",
        }}),
        json!({"toolResult": {
            "toolUseId": "s", "content": [{"json": {}}], "type": "nova_grounding_result",
        }}),
        json!({"citationsContent": {"content": [{"text": "b"}], "citations": [{"title": "t"}]}}),
    ];
    let reader = Reader::new(Origin::new(Model::new(nova, "")));
    let content = blocks.clone().into_iter().filter_map(|block| reader.read(block)).collect();
    let messages = [Message::user("hi"), assistant(content), Message::user("more")];
    let whole = |model| {
        let request = RequestRef { model, messages: &messages, ..Default::default() };
        written(request, Settings::default())
    };
    for model in [nova, "us.amazon.nova-2-lite-v1:0"] {
        let body = whole(model);
        assert_eq!(body["messages"][1]["content"], json!(blocks));
        assert!(!body["toolConfig"].to_string().contains("nova_grounding"));
    }
    for model in [CLAUDE, NOVA, LLAMA, "opaque"] {
        let body = whole(model);
        assert_eq!(body["messages"][1]["content"], json!([{"text": "b"}]), "{model}");
        assert_eq!(body.get("toolConfig"), None);
    }
}

#[test]
fn url_is_an_error_that_names_the_fix() {
    let source = ImageSource::Url { url: "https://a.example/b.png".into() };
    let messages = [user(vec![ContentBlock::Image { source }])];
    let error = Conversation::new(&messages, Model::new(CLAUDE, ""));
    assert_eq!(
        error.unwrap_err().to_string(),
        "invalid request: Bedrock fetches no images from URLs: send the bytes in base64"
    );
}
