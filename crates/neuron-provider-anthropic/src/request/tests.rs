//! Tests of the JSON of each part of a request. Other tests check that the body of a longer conversation begins with
//! the bytes of a shorter one, because prompt caches need this.

use neuron_model::{
    CompletionRequest, ContextManagement, DocumentSource, EmbeddedResource, ImageSource,
    RequestRef, ResourceLink, SystemBlock, ToolAnnotations, ToolDefinition,
};
use neuron_testing::anthropic::check_request;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::betas::of as betas;

const DEFAULTS: Settings<'_> =
    Settings { model: "default-model", max_tokens: 100, cache: None, is_other_server: false };

fn json_of(request: RequestRef<'_>) -> Value {
    serde_json::from_slice(&write(request, DEFAULTS, false).unwrap()).unwrap()
}

/// Checks the serialised body of a request. `expected` omits the fields that every body has.
#[track_caller]
fn check(request: RequestRef<'_>, expected: Value) {
    let mut json = json_of(request);
    let fields = json.as_object_mut().unwrap();
    for (key, usual) in
        [("model", json!("default-model")), ("max_tokens", json!(100)), ("messages", json!([]))]
    {
        if fields.get(key) == Some(&usual) {
            fields.shift_remove(key);
        }
    }
    assert_eq!(json, expected);
}

/// Checks that a message with this role and these blocks is serialised as the JSON `expected`.
#[track_caller]
fn check_blocks(role: Role, content: Vec<ContentBlock>, expected: Value) {
    let message = Message { role, content };
    let messages = vec![Message::user("hi"), message];
    let expected = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": json_role(role), "content": expected},
    ]});
    check(talk(messages).view(), expected);
}

fn json_role(role: Role) -> Value {
    serde_json::to_value(role).unwrap()
}

fn talk(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, ..Default::default() }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

fn result(content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: "c1".into(), content, is_error }
}

fn png() -> ImageSource {
    ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: "Looks".into(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn cache(ttl: Option<CacheTtl>) -> Option<CacheControl> {
    Some(CacheControl { ttl })
}

#[test]
fn empty_request_contains_the_settings() {
    assert_eq!(
        json_of(CompletionRequest::default().view()),
        json!({"model": "default-model", "max_tokens": 100, "messages": []})
    );
    let request =
        CompletionRequest { model: "other".into(), max_tokens: Some(7), ..Default::default() };
    check(request.view(), json!({"model": "other", "max_tokens": 7}));
    let streamed = write(request.view(), DEFAULTS, true).unwrap();
    assert_eq!(
        String::from_utf8(streamed).unwrap(),
        r#"{"model":"other","max_tokens":7,"stream":true,"messages":[]}"#
    );
}

#[test]
fn user_blocks_are_mapped() {
    let user = |blocks, expected| check_blocks(Role::User, blocks, expected);
    user(vec![text("日本")], json!([{"type": "text", "text": "日本"}]));
    user(
        vec![ContentBlock::Image { source: png() }],
        json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]),
    );
    let url = "https://example.com/a".to_owned();
    user(
        vec![ContentBlock::Image { source: ImageSource::Url { url: url.clone() } }],
        json!([{"type": "image", "source": {"type": "url", "url": url}}]),
    );
    for (source, expected) in [
        (
            DocumentSource::Base64Pdf { data: "aGk=".into() },
            json!({"type": "base64", "media_type": "application/pdf", "data": "aGk="}),
        ),
        (
            DocumentSource::PlainText { data: "hi".into() },
            json!({"type": "text", "media_type": "text/plain", "data": "hi"}),
        ),
        (DocumentSource::Url { url: url.clone() }, json!({"type": "url", "url": url})),
    ] {
        user(
            vec![ContentBlock::Document { source }],
            json!([{"type": "document", "source": expected}]),
        );
    }
}

#[test]
fn tool_results_are_mapped() {
    let check = |content, is_error, expected: Value| {
        let expected = json!([{"type": "tool_result", "tool_use_id": "c1"}, expected]);
        let [mut result_json, more] = [expected[0].clone(), expected[1].clone()];
        let fields = result_json.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        check_blocks(Role::User, vec![result(content, is_error)], json!([result_json]));
    };
    let said = |said: &str| ContentItem::Text(said.into());
    let image = || ContentItem::Image { source: png() };
    check(
        vec![said("22"), said("°C")],
        false,
        json!({"content": [{"type": "text", "text": "22"}, {"type": "text", "text": "°C"}]}),
    );
    check(
        vec![said(" \n"), image()],
        false,
        json!({"content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]}),
    );
    check(vec![], false, json!({}));
    check(vec![said("")], false, json!({}));
    check(
        vec![said("no")],
        true,
        json!({"content": [{"type": "text", "text": "no"}], "is_error": true}),
    );
}

/// Audio and resources in tool results must be sent as blocks that the API accepts, or be described by text. Regression
/// test for archives and images of unusual types, which were lost or made every later request fail.
#[test]
fn tool_results_with_audio_and_resources_are_mapped() {
    let check = |content, is_error, expected: Value| {
        let mut expected =
            json!([{"type": "tool_result", "tool_use_id": "c1", "content": expected}]);
        if is_error {
            expected[0]["is_error"] = json!(true);
        }
        check_blocks(Role::User, vec![result(content, is_error)], expected);
    };
    let blob = |mime_type: &str| ContentItem::Resource {
        resource: EmbeddedResource::blob("file:///a", "aGk=").with_mime_type(mime_type),
    };
    let svg = ImageSource::Base64 { media_type: "image/svg+xml".into(), data: "aGk=".into() };
    let items = || {
        vec![
            ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
            ContentItem::Resource { resource: EmbeddedResource::text("file:///a", "hi") },
            blob("image/jpg"),
            blob("application/pdf"),
            blob("application/zip"),
            ContentItem::Image { source: svg.clone() },
            ContentItem::ResourceLink { resource: ResourceLink::new("file:///a", "a") },
        ]
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let data = |kind: &str, media_type: &str| json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": "aGk="}});
    check(
        items(),
        false,
        json!([
            text("[audio, audio/wav]"),
            text("[resource file:///a]\nhi"),
            data("image", "image/jpeg"),
            data("document", "application/pdf"),
            text("[resource file:///a, application/zip]"),
            text("[image]"),
            text("[link to resource file:///a: a]"),
        ]),
    );
    check(
        items(),
        true,
        json!([
            text("[audio, audio/wav]"),
            text("[resource file:///a]\nhi"),
            text("[resource file:///a, image/jpg]"),
            text("[resource file:///a, application/pdf]"),
            text("[resource file:///a, application/zip]"),
            text("[image]"),
            text("[link to resource file:///a: a]"),
        ]),
    );
}

/// The result of a failed call must be sent with a text and without images, because the API rejects any other failed
/// result. Regression test. Such a result made every later request of the conversation fail.
#[test]
fn failed_tool_result_has_text_and_no_image() {
    let bare = json!([{
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "[the tool failed without a message]"}],
        "is_error": true,
    }]);
    check_blocks(Role::User, vec![result(vec![], true)], bare.clone());
    let blank = vec![ContentItem::Text("\n".into())];
    check_blocks(Role::User, vec![result(blank, true)], bare);
    let image = ContentItem::Image { source: png() };
    check_blocks(
        Role::User,
        vec![result(vec![ContentItem::Text("see".into()), image], true)],
        json!([{
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "see"}, {"type": "text", "text": "[image]"}],
            "is_error": true,
        }]),
    );
}

#[test]
fn assistant_blocks_are_mapped() {
    let model = |blocks, expected| check_blocks(Role::Assistant, blocks, expected);
    let thinking = |thinking: &str, signature: &str| ContentBlock::Thinking {
        thinking: thinking.into(),
        signature: signature.into(),
    };
    model(
        vec![thinking("hm", "sig"), thinking("", "sig2"), text("a")],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "thinking", "thinking": "", "signature": "sig2"},
            {"type": "text", "text": "a"},
        ]),
    );
    model(
        vec![thinking("of another provider", ""), text("a")],
        json!([{"type": "text", "text": "a"}]),
    );
    model(
        vec![ContentBlock::RedactedThinking { data: "xyz".into() }, text("a")],
        json!([{"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "a"}]),
    );
    model(
        vec![ContentBlock::Compaction { content: "so far".into() }],
        json!([{"type": "compaction", "content": "so far"}]),
    );
    for (input, expected) in [
        (json!({"z": 1, "a": [null]}), json!({"z": 1, "a": [null]})),
        (json!({}), json!({})),
        (json!(null), json!({})),
        (json!([1]), json!({"input": [1]})),
        (json!("x"), json!({"input": "x"})),
        (neuron_model::ToolCall::invalid_json_input("{\"a"), json!({"invalid_json": "{\"a"})),
    ] {
        model(
            vec![call("c1", input)],
            json!([{"type": "tool_use", "id": "c1", "name": "look", "input": expected}]),
        );
    }
}

#[test]
fn arguments_keep_their_order() {
    let message = Message {
        role: Role::Assistant,
        content: vec![call("c1", json!({"z": 1, "a": 2, "m": 3}))],
    };
    let body = write(talk(vec![message]).view(), DEFAULTS, false).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains(r#""input":{"z":1,"a":2,"m":3}"#), "{body}");
}

#[test]
fn raw_blocks_are_unchanged_and_foreign_blocks_portable() {
    let cited =
        json!({"text": "a", "type": "text", "citations": [{"type": "char_location"}], "new": null});
    let portable = || Some(text("a"));
    check_blocks(
        Role::Assistant,
        vec![raw("anthropic", cited.clone(), portable())],
        json!([cited]),
    );
    check_blocks(
        Role::Assistant,
        vec![
            raw("openai", cited.clone(), portable()),
            raw("openai", cited.clone(), None),
            raw("openai", cited.clone(), Some(raw("x", cited, portable()))),
        ],
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": "a"}]),
    );
}

/// The field `file_id` of a citation must not be sent back, because the API accepts it only in responses. Source:
/// `CitationCharLocation` and `CitationCharLocationParam` of Anthropic's Python SDK 2.12.0.
#[test]
fn file_ids_of_citations_are_not_sent_back() {
    let citation = |file: Value| {
        let mut json = json!({"type": "page_location", "cited_text": "a", "document_index": 0});
        json.as_object_mut().unwrap().extend(file.as_object().unwrap().clone());
        json
    };
    for file in [json!({}), json!({"file_id": null}), json!({"file_id": "file_1"})] {
        let cited = json!({"type": "text", "text": "a", "citations": [citation(file), "odd"]});
        let expected =
            json!([{"type": "text", "text": "a", "citations": [citation(json!({})), "odd"]}]);
        let block = crate::response::block(cited);
        check_blocks(Role::Assistant, vec![block], expected);
    }
    // The `citations` of a document are a settings object and not a list.
    let document = json!({"type": "document", "source": {"type": "file", "file_id": "f"}, "citations": {"enabled": true}});
    check_blocks(Role::User, vec![raw("anthropic", document.clone(), None)], json!([document]));
}

/// A raw block must be repaired or omitted if the API would reject it. The API rejects blank texts, and tool arguments
/// that are not an object.
#[test]
fn raw_blocks_that_the_api_rejects_are_repaired() {
    let caller = json!({"type": "direct"});
    let tool = |input: Value| json!({"type": "tool_use", "id": "c1", "name": "look", "input": input, "caller": caller});
    for (input, expected) in [
        (json!({"z": 1, "a": 2}), json!({"z": 1, "a": 2})),
        (json!("{\"a\":1}"), json!({"a": 1})),
        (json!("{\"a"), json!({"invalid_json": "{\"a"})),
        (json!(null), json!({})),
        (json!([1]), json!({"input": [1]})),
    ] {
        let block = crate::response::block(tool(input));
        check_blocks(Role::Assistant, vec![block], json!([tool(expected)]));
    }
    let bare = json!({"type": "tool_use", "id": "c1", "name": "look", "caller": caller});
    let block = crate::response::block(bare.clone());
    let mut expected = bare;
    expected["input"] = json!({});
    check_blocks(Role::Assistant, vec![block], json!([expected]));
    let blank = json!({"type": "text", "text": "\n", "citations": [{"type": "char_location"}]});
    let blocks = vec![crate::response::block(blank), text("a")];
    check_blocks(Role::Assistant, blocks, json!([{"type": "text", "text": "a"}]));
}

/// Call ids of another vendor must be replaced if they contain invalid characters, or if a later response repeats them.
/// Regression test. The API rejected conversations with such ids.
#[test]
fn ids_of_other_vendors_are_replaced_with_valid_ids() {
    let asked = |blocks: Vec<ContentBlock>| Message { role: Role::Assistant, content: blocks };
    let answered = |ids: &[&str]| {
        let result = |id: &&str| ContentBlock::ToolResult {
            tool_use_id: (*id).into(),
            content: vec![],
            is_error: false,
        };
        Message { role: Role::User, content: ids.iter().map(result).collect() }
    };
    let own = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": {"type": "direct"}});
    let messages = vec![
        Message::user("hi"),
        asked(vec![call("call_0", json!({})), call("functions.look:1", json!({}))]),
        answered(&["functions.look:1", "call_0"]),
        asked(vec![call("call_0", json!({})), call("functions_look_1", json!({}))]),
        answered(&["call_0", "functions_look_1"]),
        asked(vec![raw("other", json!({}), Some(call("call_0", json!({}))))]),
        answered(&["call_0"]),
        asked(vec![raw("anthropic", own, Some(call("toolu_1", json!({}))))]),
        answered(&["toolu_1"]),
        asked(vec![call("call_0_2", json!({})), call("é", json!({}))]),
        answered(&["é", "call_0_2"]),
    ];
    let mut expected = Vec::new();
    let request = talk(messages);
    let json = json_of(request.view());
    for message in json["messages"].as_array().unwrap() {
        let ids = message["content"].as_array().unwrap().iter();
        let ids = ids.filter_map(|block| block.get("id").or(block.get("tool_use_id")));
        expected.push(ids.map(|id| id.as_str().unwrap()).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(
        expected,
        [
            "",
            "call_0 functions_look_1",
            "functions_look_1 call_0",
            "call_0_2 functions_look_1_2",
            "call_0_2 functions_look_1_2",
            "call_0_3",
            "call_0_3",
            "toolu_1",
            "toolu_1",
            "call_0_2_2 _",
            "_ call_0_2_2",
        ]
    );
    assert_eq!(check_request(&json, &[]), Ok(()));
}

/// An image in a `data:` URL must be sent as base64 data. Regression test. The image was sent as a URL, which the API
/// tried to download.
#[test]
fn images_in_data_urls_are_sent_as_base64() {
    let image = |url: &str| ContentBlock::Image { source: ImageSource::Url { url: url.into() } };
    let bytes = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    check_blocks(
        Role::User,
        vec![image("data:image/png;base64,aGk="), image("DATA:image/png;charset=x;BASE64,aGk=")],
        json!([{"type": "image", "source": bytes}, {"type": "image", "source": bytes}]),
    );
    check_blocks(
        Role::User,
        vec![result(
            vec![ContentItem::Image {
                source: ImageSource::Url { url: "data:image/png;base64,aGk=".into() },
            }],
            false,
        )],
        json!([{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "image", "source": bytes}]}]),
    );
}

/// The API rejects other spellings of the types that it accepts.
#[test]
fn types_of_images_are_sent_as_the_api_spells_them() {
    for (given, sent) in [("image/jpg", "image/jpeg"), ("Image/PNG; q=1", "image/png")] {
        let source = json!({"type": "base64", "media_type": sent, "data": "aGk="});
        let image = |source| ContentBlock::Image { source };
        let url = format!("data:{given};base64,aGk=");
        check_blocks(
            Role::User,
            vec![
                image(ImageSource::Base64 { media_type: given.into(), data: "aGk=".into() }),
                image(ImageSource::Url { url }),
            ],
            json!([{"type": "image", "source": source}, {"type": "image", "source": source}]),
        );
    }
}

/// Blank texts and messages without content must be omitted. Models write blank texts before a tool call, and the API
/// rejects these texts in the next request.
#[test]
fn blank_texts_and_empty_messages_are_omitted() {
    check_blocks(
        Role::Assistant,
        vec![text("\n\n"), text(""), text(" a "), text("\u{3000}")],
        json!([{"type": "text", "text": " a "}]),
    );
    let request = talk(vec![
        Message::user("hi"),
        Message::assistant(""),
        Message { role: Role::Assistant, content: vec![] },
        Message::system(" "),
        Message::user("still there?"),
    ]);
    check(
        request.view(),
        json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "user", "content": [{"type": "text", "text": "still there?"}]},
        ]}),
    );
}

#[test]
fn system_prompts_are_mapped() {
    let check = |system: SystemPrompt, leading: &[&str], expected: Value| {
        let request = CompletionRequest {
            system: Some(system),
            messages: leading.iter().map(|text| Message::system(*text)).collect(),
            ..Default::default()
        };
        check(request.view(), expected);
    };
    let block = |text: &str, ttl: Option<Option<CacheTtl>>| SystemBlock {
        text: text.into(),
        cache_control: ttl.map(|ttl| CacheControl { ttl }),
    };
    let plain = |text: &str| json!({"type": "text", "text": text});
    check("be kind".into(), &[], json!({"system": "be kind"}));
    check("".into(), &[], json!({}));
    check(" \n".into(), &[], json!({}));
    check(vec![].into(), &[], json!({}));
    check(vec![block("", None)].into(), &[], json!({}));
    check(
        vec![
            block("a", None),
            block("\n", None),
            block("b", Some(None)),
            block("c", Some(Some(CacheTtl::FiveMinutes))),
            block("d", Some(Some(CacheTtl::OneHour))),
        ]
        .into(),
        &[],
        json!({"system": [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "c", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
            {"type": "text", "text": "d", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ]}),
    );
    check("a".into(), &["b", "", "c"], json!({"system": [plain("a"), plain("b"), plain("c")]}));
    check("".into(), &["b"], json!({"system": [plain("b")]}));
    check(vec![block("a", None)].into(), &["b"], json!({"system": [plain("a"), plain("b")]}));
}

#[test]
fn later_system_message_keeps_its_position() {
    let request = talk(vec![Message::system("a"), Message::user("hi"), Message::system("b")]);
    check(
        request.view(),
        json!({
            "system": [{"type": "text", "text": "a"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "system", "content": [{"type": "text", "text": "b"}]},
            ],
        }),
    );
}

#[test]
fn unsupported_tool_fields_are_omitted() {
    let full = ToolDefinition {
        title: Some("Look".into()),
        output_schema: Some(json!({"type": "string"})),
        annotations: Some(ToolAnnotations { read_only_hint: Some(true), ..Default::default() }),
        cache_control: cache(Some(CacheTtl::OneHour)),
        ..tool("look")
    };
    let request = CompletionRequest { tools: vec![tool("see"), full], ..Default::default() };
    check(
        request.view(),
        json!({"tools": [
            {"name": "see", "description": "Looks", "input_schema": {"type": "object"}},
            {
                "name": "look",
                "description": "Looks",
                "input_schema": {"type": "object"},
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
        ]}),
    );
}

#[test]
fn tool_choices_are_mapped() {
    let check = |choice: ToolChoice, tools: Vec<ToolDefinition>, expected: Option<Value>| {
        let request = CompletionRequest { tools, tool_choice: Some(choice), ..Default::default() };
        let json = json_of(request.view());
        assert_eq!(json.get("tool_choice").cloned(), expected);
    };
    let specific = || ToolChoice::Specific { name: "look".into() };
    for (choice, with, without) in [
        (ToolChoice::Auto, json!({"type": "auto"}), None),
        (ToolChoice::None, json!({"type": "none"}), None),
    ] {
        check(choice.clone(), vec![tool("look")], Some(with));
        check(choice, vec![], without);
    }
    check(ToolChoice::Required, vec![tool("look")], Some(json!({"type": "any"})));
    check(specific(), vec![tool("look")], Some(json!({"type": "tool", "name": "look"})));
}

/// The API rejected these requests. Regression test.
#[test]
fn request_that_the_api_rejects_is_an_error() {
    let check = |request: CompletionRequest, expected: &str| {
        let error = write(request.view(), DEFAULTS, false).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid request: {expected}"));
    };
    let choose = |tools, choice| CompletionRequest {
        tools,
        tool_choice: Some(choice),
        ..Default::default()
    };
    let specific = || ToolChoice::Specific { name: "fs/read".into() };
    let no_tools = "a forced tool call needs tools: add them, or use ToolChoice::Auto";
    check(choose(vec![], ToolChoice::Required), no_tools);
    check(choose(vec![], specific()), no_tools);
    // The error has the name that the caller gave.
    check(
        choose(vec![tool("fs_read")], specific()),
        "the tool choice names `fs/read`, and the request has no such tool: add it, or choose another tool",
    );
    let stop = |sequence: &str| CompletionRequest {
        stop_sequences: vec![sequence.into()],
        ..Default::default()
    };
    check(stop(""), "a stop sequence is empty: leave it out");
    check(
        stop("\n\n"),
        "Anthropic accepts no stop sequence of white space alone: leave it out, or add other characters",
    );
    let bmp = ImageSource::Base64 { media_type: "image/bmp".into(), data: "aGk=".into() };
    let content = vec![ContentBlock::Image { source: bmp }];
    check(
        talk(vec![Message { role: Role::User, content }]),
        "Anthropic does not accept an image of the type `image/bmp`: send it as PNG, JPEG, GIF or WebP",
    );
}

/// An image of a tool must not make every later request fail. Regression test.
#[test]
fn image_of_a_tool_that_the_api_rejects_becomes_text() {
    let url = ImageSource::Url { url: "data:image/bmp;base64,aGk=".into() };
    let item = ContentItem::Image { source: url };
    check_blocks(
        Role::User,
        vec![result(vec![item], false)],
        json!([{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "[image]"}]}]),
    );
}

/// The tool choice must be sent if the tools are only in `extra`. It must not be sent without any tools, because the
/// API rejects that. Regression test.
#[test]
fn tool_choice_is_sent_if_extra_has_tools() {
    let choice = |extra: Value| {
        let request = CompletionRequest {
            tool_choice: Some(ToolChoice::Auto),
            extra: Some(extra),
            ..Default::default()
        };
        json_of(request.view()).get("tool_choice").cloned()
    };
    assert_eq!(choice(json!({"metadata": {"user_id": "u"}})), None);
    assert_eq!(
        choice(json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})),
        Some(json!({"type": "auto"}))
    );
}

#[test]
fn thinking_effort_and_format_are_mapped() {
    let base = CompletionRequest::default;
    let check_thinking = |thinking, max_tokens, expected| {
        let request = CompletionRequest { thinking: Some(thinking), max_tokens, ..base() };
        check(request.view(), expected);
    };
    let enabled = ThinkingConfig::Enabled { budget_tokens: 2000 };
    let thinking = json!({"type": "enabled", "budget_tokens": 2000});
    check_thinking(enabled, None, json!({"max_tokens": 2100, "thinking": thinking}));
    check_thinking(enabled, Some(3000), json!({"max_tokens": 3000, "thinking": thinking}));
    check_thinking(ThinkingConfig::Disabled, None, json!({"thinking": {"type": "disabled"}}));
    check_thinking(ThinkingConfig::Adaptive, None, json!({"thinking": {"type": "adaptive"}}));
    let schema = json!({"type": "object", "properties": {}});
    let format =
        ResponseFormat::JsonSchema { name: "answer".into(), schema: schema.clone(), strict: true };
    for (effort, format, expected) in [
        (
            ReasoningEffort::None,
            Some(ResponseFormat::Text),
            json!({"thinking": {"type": "disabled"}}),
        ),
        (ReasoningEffort::Low, None, json!({"output_config": {"effort": "low"}})),
        (ReasoningEffort::Medium, None, json!({"output_config": {"effort": "medium"}})),
        (
            ReasoningEffort::High,
            Some(format.clone()),
            json!({"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": schema}}}),
        ),
        (
            ReasoningEffort::None,
            Some(format),
            json!({"thinking": {"type": "disabled"}, "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        ),
    ] {
        let request =
            CompletionRequest { reasoning_effort: Some(effort), response_format: format, ..base() };
        check(request.view(), expected);
    }
}

#[test]
fn content_that_the_api_cannot_express_is_rejected() {
    let error = |request: CompletionRequest| {
        write(request.view(), DEFAULTS, false).unwrap_err().to_string()
    };
    let request = CompletionRequest {
        response_format: Some(ResponseFormat::JsonObject),
        ..Default::default()
    };
    assert_eq!(
        error(request),
        "invalid request: Anthropic has no free JSON mode: use ResponseFormat::JsonSchema"
    );
    let request = CompletionRequest { extra: Some(json!([{"top_k": 5}])), ..Default::default() };
    assert_eq!(
        error(request),
        "invalid request: `extra` must be a JSON object: its fields are merged into the request"
    );
}

#[test]
fn numbers_have_no_excess_digits() {
    for extra in [None, Some(json!({"top_k": 5}))] {
        let request = CompletionRequest {
            temperature: Some(0.7),
            top_p: Some(0.95),
            stop_sequences: vec!["END".into(), "\n\nHuman:".into()],
            extra,
            ..Default::default()
        };
        let body = write(request.view(), DEFAULTS, false).unwrap();
        let body = String::from_utf8(body).unwrap();
        let expected = r#""temperature":0.7,"top_p":0.95,"stop_sequences":["END","\n\nHuman:"],"#;
        assert!(body.contains(expected), "{body}");
    }
}

#[test]
fn context_management_is_mapped_with_betas() {
    let check_edits = |strategies: &[&str], betas_needed: &[&str]| {
        let edits =
            strategies.iter().map(|strategy| ContextEdit::Compact { strategy: (*strategy).into() });
        let request = CompletionRequest {
            context_management: Some(ContextManagement { edits: edits.collect() }),
            ..Default::default()
        };
        let types = strategies.iter().map(|name| json!({"type": name}));
        let edits: Vec<_> = types.collect();
        check(request.view(), json!({"context_management": {"edits": edits}}));
        assert_eq!(betas(request.view()), betas_needed);
    };
    check_edits(&["compact_20260112"], &["compact-2026-01-12"]);
    check_edits(
        &["compact_20260112", "clear_tool_uses_20250919", "clear_thinking_20251015"],
        &["compact-2026-01-12", "context-management-2025-06-27"],
    );
}

#[test]
fn raw_edit_is_sent_unchanged() {
    let edit =
        json!({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}});
    let edits = vec![ContextEdit::Raw { json: edit.clone() }];
    let request = CompletionRequest {
        context_management: Some(ContextManagement { edits }),
        ..Default::default()
    };
    check(request.view(), json!({"context_management": {"edits": [edit]}}));
}

#[test]
fn summarize_edit_is_sent_in_its_own_field() {
    let request = |edits| CompletionRequest {
        context_management: Some(ContextManagement { edits }),
        ..Default::default()
    };
    let now = ContextEdit::Compact { strategy: "summarize".into() };
    check(request(vec![now.clone()]).view(), json!({"compaction": {"type": "summarize"}}));
    let told = json!({"type": "summarize", "instructions": "keep names"});
    check(
        request(vec![ContextEdit::Raw { json: told.clone() }]).view(),
        json!({"compaction": told}),
    );
    let both = vec![ContextEdit::Compact { strategy: "compact_20260112".into() }, now];
    let error = write(request(both).view(), DEFAULTS, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: the API summarises on request (`summarize`) or edits by rules, not both at once"
    );
}

#[test]
fn cache_conversation_does_not_change_messages() {
    let request = talk(vec![Message::user("hi")]);
    let cached = CacheControl { ttl: Some(CacheTtl::OneHour) };
    let bytes = |cache| write(request.view(), Settings { cache, ..DEFAULTS }, false).unwrap();
    let (plain, cached) = (bytes(None), bytes(Some(&cached)));
    let text = String::from_utf8(cached).unwrap();
    assert!(text.contains(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#), "{text}");
    let messages = |text: &str| text[text.find(r#""messages""#).unwrap()..].to_owned();
    assert_eq!(messages(&text), messages(&String::from_utf8(plain).unwrap()));
}

#[test]
fn requested_breakpoint_is_sent_below_the_maximum() {
    let marked = |count: usize| CompletionRequest {
        messages: vec![Message::user("hi")],
        system: Some(
            vec![SystemBlock { text: "s".into(), cache_control: cache(None) }; count].into(),
        ),
        ..Default::default()
    };
    let sent = |request: &CompletionRequest, wish, settings| {
        let request = RequestRef { cache: wish, ..request.view() };
        let bytes = write(request, Settings { cache: settings, ..DEFAULTS }, false).unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        body.get("cache_control").cloned()
    };
    let (wish, hour) =
        (Some(CacheControl::default()), CacheControl { ttl: Some(CacheTtl::OneHour) });
    let (short, long) = (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
    for (marks, wish, settings, expected) in [
        (0, None, None, None),
        (0, wish, None, Some(&short)),
        (3, wish, None, Some(&short)),
        (4, wish, None, None),
        (0, wish, Some(&hour), Some(&long)),
        (4, None, Some(&hour), Some(&long)),
    ] {
        assert_eq!(sent(&marked(marks), wish, settings).as_ref(), expected, "{marks} {wish:?}");
    }
}

/// An empty list of context edits must not be sent, because the API rejects it without the beta header. Regression
/// test.
#[test]
fn context_management_without_edits_is_not_sent() {
    let request = CompletionRequest {
        context_management: Some(ContextManagement::default()),
        ..Default::default()
    };
    check(request.view(), json!({}));
    assert!(betas(request.view()).is_empty());
}

/// A request with a compaction block must have the beta header for compaction, because the API rejects the block
/// otherwise. Regression test. The header was sent only if the request also asked for a compaction.
#[test]
fn summary_in_conversation_adds_its_beta() {
    let summary = ContentBlock::Compaction { content: "so far".into() };
    let json = json!({"type": "compaction", "content": null});
    for block in [
        summary.clone(),
        raw("anthropic", json.clone(), None),
        raw("other", json.clone(), Some(summary)),
    ] {
        let request = talk(vec![
            Message::user("hi"),
            Message { role: Role::Assistant, content: vec![block] },
        ]);
        assert_eq!(betas(request.view()), ["compact-2026-01-12"]);
        assert_eq!(check_request(&json_of(request.view()), &betas(request.view())), Ok(()));
    }
    let request = talk(vec![Message {
        role: Role::Assistant,
        content: vec![text("compaction"), raw("other", json, None)],
    }]);
    assert!(betas(request.view()).is_empty());
}

#[test]
fn extra_is_merged_and_its_tools_are_appended() {
    let search = json!({"type": "web_search_20250305", "name": "web_search"});
    let request = CompletionRequest {
        tools: vec![tool("look")],
        reasoning_effort: Some(ReasoningEffort::Low),
        stop_sequences: vec!["a".into()],
        extra: Some(json!({
            "metadata": {"user_id": "u"},
            "output_config": {"task_budget": {"total": 5}, "effort": "max"},
            "stop_sequences": ["b"],
            "tools": [search],
            "max_tokens": 5,
        })),
        ..Default::default()
    };
    check(
        request.view(),
        json!({
            "max_tokens": 5,
            "metadata": {"user_id": "u"},
            "output_config": {"effort": "max", "task_budget": {"total": 5}},
            "stop_sequences": ["b"],
            "tools": [
                {"name": "look", "description": "Looks", "input_schema": {"type": "object"}},
                search,
            ],
        }),
    );
    let request = CompletionRequest {
        extra: Some(json!({"tools": [search], "output_config": {"effort": "max"}})),
        ..Default::default()
    };
    check(request.view(), json!({"tools": [search], "output_config": {"effort": "max"}}));
    for nothing in [json!(null), json!({})] {
        let request = CompletionRequest { extra: Some(nothing), ..Default::default() };
        check(request.view(), json!({}));
    }
}

#[test]
fn body_with_every_field_is_accepted() {
    let request = CompletionRequest {
        system: Some(
            vec![SystemBlock {
                text: "be kind".into(),
                cache_control: cache(Some(CacheTtl::OneHour)),
            }]
            .into(),
        ),
        messages: vec![
            Message::system("and brief"),
            Message::user("hi"),
            Message { role: Role::Assistant, content: vec![call("c1", json!(null))] },
            Message { role: Role::User, content: vec![result(vec![], true)] },
        ],
        tools: vec![tool("look")],
        tool_choice: Some(ToolChoice::Auto),
        stop_sequences: vec!["END".into()],
        thinking: Some(ThinkingConfig::Enabled { budget_tokens: 1024 }),
        reasoning_effort: Some(ReasoningEffort::High),
        context_management: Some(ContextManagement {
            edits: vec![ContextEdit::Compact { strategy: "compact_20260112".into() }],
        }),
        extra: Some(json!({"metadata": {"user_id": "u"}})),
        ..Default::default()
    };
    assert_eq!(check_request(&json_of(request.view()), &betas(request.view())), Ok(()));
}

/// The generated parts of one turn of a conversation. They are:
///
/// - the user's blocks
/// - the model's calls, each as two indices that select its arguments and its result from lists in [`history`]
/// - the model's other blocks
/// - `true` if a system message follows
type Turn = (Vec<ContentBlock>, Vec<(u8, u8)>, Vec<ContentBlock>, bool);

/// Generates a turn that may follow any other turn.
fn turn() -> impl Strategy<Value = Turn> {
    let user = prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,8}".prop_map(ContentBlock::Text),
        Just(ContentBlock::Image { source: png() }),
        Just(ContentBlock::Document { source: DocumentSource::PlainText { data: "d".into() } }),
    ];
    let model = prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,8}x?".prop_map(|text| ContentBlock::Text(text.trim_end().into())),
        ("[a-z]{0,3}", "[a-z]{0,2}")
            .prop_map(|(thinking, signature)| ContentBlock::Thinking { thinking, signature }),
        Just(ContentBlock::RedactedThinking { data: "r".into() }),
        Just(ContentBlock::Compaction { content: "sum".into() }),
        any::<bool>().prop_map(|own| raw(
            if own { "anthropic" } else { "other" },
            json!({"type": "text", "text": "t", "citations": null}),
            Some(text("t"))
        )),
    ];
    (
        prop::collection::vec(user, 0..3),
        prop::collection::vec((0_u8..6, 0_u8..4), 0..3),
        prop::collection::vec(model, 0..4),
        any::<bool>(),
    )
}

/// Generates a conversation that the API accepts. Also returns each number of leading messages that form a valid
/// conversation by themselves.
fn history() -> impl Strategy<Value = (Vec<Message>, Vec<usize>)> {
    prop::collection::vec(turn(), 0..6).prop_map(|turns| {
        let mut messages = vec![Message::user("hi")];
        let mut ends = vec![1];
        for (index, (user, calls, model, system)) in turns.into_iter().enumerate() {
            messages.push(Message { role: Role::User, content: user });
            ends.push(messages.len());
            let (mut asked, mut answered) = (model, Vec::new());
            for (position, (input, outcome)) in calls.into_iter().enumerate() {
                // Some servers restart their numbering in every response, and use any characters in ids.
                let id = match (index % 3, position) {
                    (0, _) => format!("call_{index}_{position}"),
                    (1, _) => format!("look:{position}"),
                    (_, _) => format!("look_{position}"),
                };
                let inputs = [
                    json!(null),
                    json!({}),
                    json!([1]),
                    json!({"b": 0.1, "a": {"z": "🦀"}}),
                    json!("s"),
                    json!(7),
                ];
                let input = inputs[usize::from(input)].clone();
                asked.push(call(&id, input));
                let outcomes = [
                    vec![],
                    vec![ContentItem::Text("fine".into())],
                    vec![ContentItem::Text(" ".into())],
                    vec![ContentItem::Image { source: png() }],
                ];
                answered.push(ContentBlock::ToolResult {
                    tool_use_id: id,
                    content: outcomes[usize::from(outcome)].clone(),
                    is_error: position == 1,
                });
            }
            messages.push(Message { role: Role::Assistant, content: asked });
            if !answered.is_empty() {
                messages.push(Message { role: Role::User, content: answered });
            }
            if system {
                messages.push(Message::system("remember"));
            }
            ends.push(messages.len());
        }
        (messages, ends)
    })
}

proptest! {
    /// The body of a longer conversation must begin with the bytes of a shorter one, because prompt caches need this.
    #[test]
    fn longer_conversation_begins_with_bytes_of_shorter_one(
        (messages, ends) in history(),
        cut in any::<prop::sample::Index>(),
        with_extra in any::<bool>(),
    ) {
        let long = CompletionRequest {
            system: Some("be kind".into()),
            tools: vec![tool("look")],
            ..talk(messages)
        };
        let end = ends[cut.index(ends.len())];
        let short = CompletionRequest {
            messages: long.messages[..end].to_vec(),
            ..long.clone()
        };
        let bytes = |request: RequestRef<'_>| write(request, DEFAULTS, true).unwrap();
        let (short_bytes, long_bytes) = (bytes(short.view()), bytes(long.view()));
        let Some(beginning) = short_bytes.strip_suffix(b"]}") else {
            panic!("messages come last");
        };
        prop_assert!(long_bytes.starts_with(beginning));
        prop_assert!(matches!(long_bytes[beginning.len()], b',' | b']'));
        prop_assert_eq!(&bytes(long.clone().view()), &long_bytes);

        let extra = with_extra.then(|| json!({"metadata": {"user_id": "u"}}));
        for request in [short, long] {
            let request = CompletionRequest { extra: extra.clone(), ..request };
            let written = bytes(request.view());
            prop_assert_eq!(&bytes(request.clone().view()), &written);
            let json = serde_json::from_slice(&written).unwrap();
            prop_assert_eq!(check_request(&json, &betas(request.view())), Ok(()));
        }
    }
}

#[test]
fn strict_tools_and_vendor_fields_are_mapped() {
    let input_schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let tool = ToolDefinition { description: "d".into(), input_schema, ..tool("act") }
        .strict()
        .with_vendor_field("anthropic", "defer_loading", true)
        .with_vendor_field("anthropic", "name", "ignored")
        .with_vendor_field("another", "other", true);
    let request = CompletionRequest { tools: vec![tool], ..talk(vec![Message::user("hi")]) };
    assert_eq!(
        json_of(request.view())["tools"][0],
        json!({
            "name": "act", "description": "d", "strict": true, "defer_loading": true,
            "input_schema": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false },
        })
    );
}
