//! Tests of the JSON of each part of a request. Other tests check that the body of a longer conversation begins with
//! the bytes of a shorter one, because prompt caches need this.

use neuron_model::{
    CompletionRequest, ContentItem, ContextEdit, ContextManagement, EmbeddedResource, ImageSource,
    Message, RequestRef, ResourceLink, Role, SystemBlock, SystemPrompt, ToolCall, ToolDefinition,
};
use neuron_testing::ollama::check_chat_request;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const DEFAULTS: Settings<'_> = Settings { model: "default-model", keep_alive: None, options: None };

fn json_of(request: RequestRef<'_>) -> Value {
    serde_json::from_slice(&write(request, DEFAULTS, false).unwrap()).unwrap()
}

/// Checks the serialised body of a request. `expected` omits the fields that every body has.
#[track_caller]
fn check(request: RequestRef<'_>, expected: Value) {
    let mut json = json_of(request);
    let fields = json.as_object_mut().unwrap();
    for (key, usual) in
        [("model", json!("default-model")), ("stream", json!(false)), ("messages", json!([]))]
    {
        if fields.get(key) == Some(&usual) {
            fields.shift_remove(key);
        }
    }
    assert_eq!(json, expected);
}

/// Checks that `messages` are serialised as the JSON `expected`.
#[track_caller]
fn check_messages(messages: Vec<Message>, expected: Value) {
    check(talk(messages).view(), json!({"messages": expected}));
}

/// Checks that a message with this role and these blocks is serialised as the JSON `expected`.
#[track_caller]
fn check_message(role: Role, content: Vec<ContentBlock>, expected: Value) {
    check_messages(vec![Message { role, content }], json!([expected]));
}

#[track_caller]
fn check_error(request: RequestRef<'_>, expected: &str) {
    let error = write(request, DEFAULTS, false).unwrap_err();
    assert_eq!(error.to_string(), format!("invalid request: {expected}"));
}

fn talk(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, ..Default::default() }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn thinking(thinking: &str, signature: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: thinking.into(), signature: signature.into() }
}

fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

fn said(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

fn png() -> ImageSource {
    ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() }
}

fn url() -> ImageSource {
    ImageSource::Url { url: "https://example.com/?token=secret".into() }
}

fn image() -> ContentBlock {
    ContentBlock::Image { source: png() }
}

fn tool(name: &str, input_schema: Value) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: Some("Look".into()),
        description: "Looks".into(),
        input_schema,
        output_schema: Some(json!({})),
        annotations: None,
        cache_control: None,
    }
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

#[test]
fn empty_request_contains_the_settings() {
    assert_eq!(
        json_of(CompletionRequest::default().view()),
        json!({"model": "default-model", "stream": false, "messages": []})
    );
    let (keep_alive, options) = (json!("5m"), json!({"num_ctx": 8192}));
    let settings = Settings { keep_alive: Some(&keep_alive), options: Some(&options), ..DEFAULTS };
    let request = CompletionRequest { model: "other".into(), ..Default::default() };
    assert_eq!(
        String::from_utf8(write(request.view(), settings, true).unwrap()).unwrap(),
        r#"{"model":"other","stream":true,"keep_alive":"5m","options":{"num_ctx":8192},"messages":[]}"#
    );
}

#[test]
fn system_prompt_is_first_and_system_messages_keep_their_position() {
    let system = |text: &str| json!({"role": "system", "content": text});
    let check = |prompt: SystemPrompt, messages: Vec<Message>, expected: Value| {
        let request = CompletionRequest { system: Some(prompt), ..talk(messages) };
        check(request.view(), expected);
    };
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    check("be kind".into(), vec![], json!({"messages": [system("be kind")]}));
    check("".into(), vec![], json!({}));
    check(vec![block("")].into(), vec![], json!({}));
    check(
        vec![block("a"), block(""), block("b\"")].into(),
        vec![],
        json!({"messages": [system("a\n\nb\"")]}),
    );
    check(
        "a".into(),
        vec![Message::system("b"), Message::user("hi"), Message::system("c")],
        json!({"messages": [
            system("a"),
            system("b"),
            {"role": "user", "content": "hi"},
            system("c"),
        ]}),
    );
}

#[test]
fn user_messages_are_mapped() {
    let user = |blocks, expected| check_message(Role::User, blocks, expected);
    user(vec![text("日本 \"🦀\"\n")], json!({"role": "user", "content": "日本 \"🦀\"\n"}));
    user(vec![text("a"), text(""), text("b")], json!({"role": "user", "content": "a\n\nb"}));
    user(vec![text(" ")], json!({"role": "user", "content": " "}));
    user(vec![image()], json!({"role": "user", "content": "", "images": ["aGk="]}));
    let data_url = ImageSource::Url { url: "DATA:image/png;BASE64,eW8=".into() };
    user(
        vec![image(), text("see"), ContentBlock::Image { source: data_url }],
        json!({"role": "user", "content": "see", "images": ["aGk=", "eW8="]}),
    );
    let document = DocumentSource::PlainText { data: "long".into() };
    user(
        vec![text("read:"), ContentBlock::Document { source: document }],
        json!({"role": "user", "content": "read:\n\nlong"}),
    );
}

#[test]
fn assistant_messages_are_mapped() {
    let model = |blocks, expected| check_message(Role::Assistant, blocks, expected);
    model(vec![text("a"), text("b")], json!({"role": "assistant", "content": "ab"}));
    model(
        vec![thinking("hm", ""), thinking("so", ""), text("a")],
        json!({"role": "assistant", "content": "a", "thinking": "hm\n\nso"}),
    );
    model(
        vec![
            thinking("another vendor's", "signed"),
            ContentBlock::RedactedThinking { data: "x".into() },
            text("a"),
        ],
        json!({"role": "assistant", "content": "a"}),
    );
    model(
        vec![ContentBlock::Compaction { content: "so far".into() }],
        json!({"role": "assistant", "content": "so far"}),
    );
}

#[test]
fn arguments_are_objects_in_original_order() {
    for (input, expected) in [
        (json!({"z": 1, "a": [null]}), json!({"z": 1, "a": [null]})),
        (json!({}), json!({})),
        (json!(null), json!({})),
        (json!([1]), json!({"input": [1]})),
        (json!("x"), json!({"input": "x"})),
        (ToolCall::invalid_json_input("{\"a"), json!({"invalid_json": "{\"a"})),
    ] {
        check_message(
            Role::Assistant,
            vec![text("look:"), call("c1", "look", input)],
            json!({"role": "assistant", "content": "look:", "tool_calls": [
                {"id": "c1", "function": {"name": "look", "arguments": expected}},
            ]}),
        );
    }
    let message = Message {
        role: Role::Assistant,
        content: vec![call("c1", "look", json!({"z": 1, "a": 2, "m": 3}))],
    };
    let body =
        String::from_utf8(write(talk(vec![message]).view(), DEFAULTS, false).unwrap()).unwrap();
    assert!(body.contains(r#""arguments":{"z":1,"a":2,"m":3}"#), "{body}");
}

#[test]
fn tool_results_are_messages_before_user_text() {
    let calls = || Message {
        role: Role::Assistant,
        content: vec![call("c1", "look", json!({})), call("c2", "see", json!({}))],
    };
    let asked = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "function": {"name": "look", "arguments": {}}},
        {"id": "c2", "function": {"name": "see", "arguments": {}}},
    ]});
    let answers = Message {
        role: Role::User,
        content: vec![
            result("c2", vec![said("22"), said("°C")], false),
            text("hurry"),
            result("c1", vec![], false),
        ],
    };
    check_messages(
        vec![calls(), answers],
        json!([
            asked,
            {"role": "tool", "content": "22\n°C", "tool_name": "see", "tool_call_id": "c2"},
            {"role": "tool", "content": "", "tool_name": "look", "tool_call_id": "c1"},
            {"role": "user", "content": "hurry"},
        ]),
    );
}

#[test]
fn tool_result_has_name_of_last_call_with_its_id() {
    let turn = |name: &str| {
        [
            Message { role: Role::Assistant, content: vec![call("c1", name, json!({}))] },
            Message { role: Role::User, content: vec![result("c1", vec![], false)] },
        ]
    };
    let messages = [turn("look"), turn("see")].concat();
    let json = json_of(talk(messages).view());
    let names: Vec<_> = [1, 3].map(|at| json["messages"][at]["tool_name"].clone()).into();
    assert_eq!(names, ["look", "see"]);
    check_message(
        Role::User,
        vec![result("unknown", vec![], false)],
        json!({"role": "tool", "content": "", "tool_call_id": "unknown"}),
    );
}

#[test]
fn failed_results_are_marked_and_images_are_sent() {
    let check = |content, is_error, expected: Value| {
        let mut message = json!({"role": "tool"});
        message.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        message["tool_call_id"] = json!("c1");
        check_message(Role::User, vec![result("c1", content, is_error)], message);
    };
    let picture = || ContentItem::Image { source: png() };
    check(vec![said("no")], true, json!({"content": "Error: no"}));
    check(vec![], true, json!({"content": "Error: the tool failed without a message"}));
    check(vec![said("\n")], true, json!({"content": "Error: the tool failed without a message"}));
    check(vec![picture()], false, json!({"content": "", "images": ["aGk="]}));
    check(
        vec![said("see"), picture(), picture()],
        true,
        json!({"content": "Error: see", "images": ["aGk=", "aGk="]}),
    );
}

/// Audio and resources in tool results must be sent as images, or be described by text. An MCP server may return any
/// type of resource, including images of unusual types.
#[test]
fn tool_results_with_audio_and_resources_are_mapped() {
    let blob = |mime_type: &str| ContentItem::Resource {
        resource: EmbeddedResource::blob("file:///a", "aGk=").with_mime_type(mime_type),
    };
    let svg = ImageSource::Base64 { media_type: "image/svg+xml".into(), data: "aGk=".into() };
    let items = vec![
        ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
        ContentItem::Resource { resource: EmbeddedResource::text("file:///a", "hi") },
        blob("image/jpg"),
        blob("application/pdf"),
        ContentItem::Image { source: svg },
        ContentItem::ResourceLink { resource: ResourceLink::new("file:///a", "a") },
    ];
    check_message(
        Role::User,
        vec![result("c1", items, true)],
        json!({
            "role": "tool",
            "content": "Error: [audio, audio/wav]\n\
                [resource file:///a]\nhi\n\
                [resource file:///a, application/pdf]\n\
                [image]\n\
                [link to resource file:///a: a]",
            "images": ["aGk="],
            "tool_call_id": "c1",
        }),
    );
}

/// A tool's image at a URL ended the conversation with an error in every later turn.
#[test]
fn image_url_in_a_tool_result_becomes_a_text() {
    let picture = ContentItem::Image { source: url() };
    check_message(
        Role::User,
        vec![result("c1", vec![said("a"), picture], false)],
        json!({"role": "tool", "content": "a\n[image]", "tool_call_id": "c1"}),
    );
}

#[test]
fn raw_json_is_unchanged_and_foreign_blocks_portable() {
    let rest =
        json!({"type": "message", "refusal": "no", "role": "x", "content": "x", "images": ["b"]});
    let came = json!({"id": "c1", "function": {"name": "look", "arguments": {"a": 1}, "new": 1}});
    check_message(
        Role::Assistant,
        vec![
            text("a"),
            raw("ollama", came.clone(), Some(call("c1", "look", json!({"a": 1})))),
            call("c2", "see", json!({})),
            raw("ollama", rest.clone(), None),
        ],
        json!({
            "role": "assistant",
            "content": "a",
            "tool_calls": [came, {"id": "c2", "function": {"name": "see", "arguments": {}}}],
            "refusal": "no",
            "images": ["b"],
        }),
    );
    check_message(
        Role::Assistant,
        vec![
            raw("openai", rest.clone(), Some(text("a"))),
            raw("openai", rest.clone(), None),
            raw("anthropic", json!({}), Some(raw("x", json!({}), Some(text("b"))))),
            raw("anthropic", came, Some(call("c1", "look", json!({})))),
        ],
        json!({"role": "assistant", "content": "ab", "tool_calls": [
            {"id": "c1", "function": {"name": "look", "arguments": {}}},
        ]}),
    );
    check_message(
        Role::Assistant,
        vec![image(), raw("ollama", rest, None)],
        json!({"role": "assistant", "content": "", "images": ["aGk="], "refusal": "no"}),
    );
}

/// A tool call without a valid name must be omitted, because Ollama rejects every later request with such a call. A
/// call of an unknown type must be sent back.
#[test]
fn invalid_calls_are_omitted_and_unknown_types_sent_back() {
    let unknown = json!({"id": "c1", "type": "custom", "custom": {"name": "look"}});
    check_message(
        Role::Assistant,
        vec![
            text("a"),
            raw("ollama", json!({"id": "c2", "function": {"name": 7}}), None),
            raw("ollama", json!({"id": "c3", "function": {"name": ""}}), None),
            raw("ollama", unknown.clone(), None),
        ],
        json!({"role": "assistant", "content": "a", "tool_calls": [unknown]}),
    );
}

#[test]
fn empty_messages_are_omitted() {
    check_messages(
        vec![
            Message::user("hi"),
            Message::assistant(""),
            Message { role: Role::Assistant, content: vec![thinking("x", "signed")] },
            Message { role: Role::User, content: vec![] },
            Message::user("still there?"),
        ],
        json!([{"role": "user", "content": "hi"}, {"role": "user", "content": "still there?"}]),
    );
}

#[test]
fn inexpressible_content_error_names_the_fix() {
    let user = |block| talk(vec![Message { role: Role::User, content: vec![block] }]);
    let no_url = "Ollama fetches no images: send the bytes as ImageSource::Base64 instead of a URL";
    check_error(user(ContentBlock::Image { source: url() }).view(), no_url);
    let foreign = raw("openai", json!({}), Some(ContentBlock::Image { source: url() }));
    check_error(user(foreign).view(), no_url);
    for source in [
        DocumentSource::Base64Pdf { data: "x".into() },
        DocumentSource::Url { url: "https://example.com".into() },
    ] {
        check_error(
            user(ContentBlock::Document { source }).view(),
            "Ollama reads no documents but plain text: send their text as DocumentSource::PlainText",
        );
    }
    let choose = |choice| CompletionRequest { tool_choice: Some(choice), ..Default::default() };
    check_error(
        choose(ToolChoice::Required).view(),
        "Ollama cannot force a tool call: use ToolChoice::Auto and ask for it in the prompt",
    );
    check_error(
        choose(ToolChoice::Specific { name: "look".into() }).view(),
        "Ollama cannot force a call of `look`: use ToolChoice::Auto and give it no other tool",
    );
    let stop = CompletionRequest { stop_sequences: vec![String::new()], ..Default::default() };
    check_error(stop.view(), "a stop sequence is empty: leave it out");
    let edits = vec![ContextEdit::Compact { strategy: "compact_20260112".into() }];
    let manage = |edits| CompletionRequest {
        context_management: Some(ContextManagement { edits }),
        ..Default::default()
    };
    check_error(
        manage(edits).view(),
        "Ollama does not edit conversations: use a ContextStrategy, which runs on the client",
    );
    check(manage(vec![]).view(), json!({}));
    let request = CompletionRequest { extra: Some(json!([1])), ..Default::default() };
    check_error(
        request.view(),
        "`extra` must be a JSON object: its fields are merged into the request",
    );
    let options = json!("num_ctx=1");
    let settings = Settings { options: Some(&options), ..DEFAULTS };
    let error = write(CompletionRequest::default().view(), settings, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: the options must be a JSON object: {\"num_ctx\": 8192}, for instance"
    );
}

#[test]
fn tools_are_mapped() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let wire = json!({"type": "function", "function": {
        "name": "look", "description": "Looks", "parameters": schema,
    }});
    let request = |choice| CompletionRequest {
        tools: vec![tool("look", schema.clone())],
        tool_choice: choice,
        ..Default::default()
    };
    check(request(None).view(), json!({"tools": [wire]}));
    check(request(Some(ToolChoice::Auto)).view(), json!({"tools": [wire]}));
    check(request(Some(ToolChoice::None)).view(), json!({}));
}

#[test]
fn tool_choice_none_removes_tools_in_extra() {
    let request = |choice| CompletionRequest {
        tools: vec![tool("look", json!({}))],
        tool_choice: Some(choice),
        extra: Some(json!({"tools": [{"type": "function"}], "shift": true})),
        ..Default::default()
    };
    check(request(ToolChoice::None).view(), json!({"shift": true}));
    let json = json_of(request(ToolChoice::Auto).view());
    assert_eq!(json["tools"].as_array().unwrap().len(), 2);
}

/// A property schema of the short form `true` must be sent as an object. Regression test. The server could not parse
/// `true`, and rejected every request with such a property.
#[test]
fn boolean_schema_becomes_an_object() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "any": true,
            "properties": {"type": "object", "properties": {"deep": true, "anyOf": {"type": "null"}}},
            "one": {"anyOf": [{"type": "string"}, true]},
            "list": {"type": "array", "items": true, "default": [true]},
        },
    });
    let request = CompletionRequest { tools: vec![tool("look", schema)], ..Default::default() };
    assert_eq!(
        json_of(request.view())["tools"][0]["function"]["parameters"],
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "any": {},
                "properties": {"type": "object", "properties": {"deep": {}, "anyOf": {"type": "null"}}},
                "one": {"anyOf": [{"type": "string"}, {}]},
                "list": {"type": "array", "items": true, "default": [true]},
            },
        })
    );
    let request =
        CompletionRequest { tools: vec![tool("look", json!(true))], ..Default::default() };
    assert_eq!(
        json_of(request.view())["tools"][0]["function"]["parameters"],
        json!({"type": "object", "properties": {}})
    );
}

#[test]
fn thinking_and_effort_share_a_field() {
    use ReasoningEffort as E;
    let enabled = Some(ThinkingConfig::Enabled { budget_tokens: 2000 });
    for (thinking, effort, expected) in [
        (None, None, None),
        (enabled, None, Some(json!(true))),
        (Some(ThinkingConfig::Adaptive), None, Some(json!(true))),
        (Some(ThinkingConfig::Disabled), None, Some(json!(false))),
        (None, Some(E::None), Some(json!(false))),
        (None, Some(E::Low), Some(json!("low"))),
        (None, Some(E::Medium), Some(json!("medium"))),
        (enabled, Some(E::High), Some(json!("high"))),
        (enabled, Some(E::None), Some(json!(true))),
        (Some(ThinkingConfig::Disabled), Some(E::High), Some(json!(false))),
    ] {
        let request =
            CompletionRequest { thinking, reasoning_effort: effort, ..Default::default() };
        assert_eq!(json_of(request.view()).get("think").cloned(), expected);
    }
}

#[test]
fn response_formats_are_mapped() {
    let schema = json!({"type": "object", "properties": {}});
    let named =
        ResponseFormat::JsonSchema { name: "answer".into(), schema: schema.clone(), strict: true };
    for (format, expected) in [
        (ResponseFormat::Text, json!({})),
        (ResponseFormat::JsonObject, json!({"format": "json"})),
        (named, json!({"format": schema})),
    ] {
        let request = CompletionRequest { response_format: Some(format), ..Default::default() };
        check(request.view(), expected);
    }
}

#[test]
fn request_options_override_client_options() {
    let options = json!({"num_ctx": 8192, "temperature": 1.0, "seed": 1, "num_predict": 1});
    let settings = Settings { options: Some(&options), ..DEFAULTS };
    let request = CompletionRequest {
        temperature: Some(0.7),
        top_p: Some(0.95),
        max_tokens: Some(64),
        stop_sequences: vec!["END".into()],
        extra: Some(json!({"options": {"seed": 7, "top_k": 2}, "shift": false})),
        ..Default::default()
    };
    let body = String::from_utf8(write(request.view(), settings, true).unwrap()).unwrap();
    assert_eq!(
        body,
        r#"{"model":"default-model","stream":true,"options":{"num_ctx":8192,"temperature":0.7,"seed":7,"num_predict":64,"top_p":0.95,"stop":["END"],"top_k":2},"shift":false,"messages":[]}"#
    );
    let request =
        CompletionRequest { extra: Some(json!({"options": {"seed": 7}})), ..Default::default() };
    check(request.view(), json!({"options": {"seed": 7}}));
}

/// Fields of `extra` that are not top-level fields of a chat request must become options, because the server ignores
/// unknown top-level fields. Source: `ChatRequest` in Ollama's `api/types.go`. Regression test. A `seed` in `extra` had
/// no effect.
#[test]
fn unknown_top_level_fields_in_extra_become_options() {
    let with = |extra: Value| CompletionRequest { extra: Some(extra), ..Default::default() };
    let top = json!({
        "think": true, "keep_alive": "5m", "truncate": false, "shift": false, "logprobs": true,
        "top_logprobs": 2, "format": "json", "_debug_render_only": true,
    });
    check(with(top.clone()).view(), top);
    check(
        with(json!({"seed": 7, "shift": true, "num_ctx": 1})).view(),
        json!({"shift": true, "options": {"seed": 7, "num_ctx": 1}}),
    );
    check(with(json!({"options": null})).view(), json!({"options": null}));
}

#[test]
fn extra_overrides_request_and_options() {
    let options = json!({"num_ctx": 8192, "seed": 1});
    let settings = Settings { options: Some(&options), ..DEFAULTS };
    let request = CompletionRequest {
        temperature: Some(0.7),
        extra: Some(json!({"temperature": 0, "seed": 2, "top_k": 3, "options": {"top_k": 4}})),
        ..Default::default()
    };
    let json: Value =
        serde_json::from_slice(&write(request.view(), settings, false).unwrap()).unwrap();
    assert_eq!(json["options"], json!({"num_ctx": 8192, "seed": 2, "temperature": 0, "top_k": 4}));
}

#[test]
fn non_object_options_in_extra_are_rejected() {
    for options in [json!(null), json!("num_ctx=1"), json!([])] {
        let extra = Some(json!({"seed": 7, "options": options}));
        let request = CompletionRequest { extra, ..Default::default() };
        check_error(
            request.view(),
            "`extra.options` must be a JSON object, because `seed` in `extra` is an option",
        );
    }
    let extra = Some(json!({"stream": true, "seed": 7}));
    check_error(
        CompletionRequest { extra, ..Default::default() }.view(),
        "`extra` cannot set `stream`: call complete or complete_stream",
    );
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
        Just(image()),
        Just(ContentBlock::Document { source: DocumentSource::PlainText { data: "d".into() } }),
    ];
    let model = prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,8}".prop_map(ContentBlock::Text),
        ("[a-z]{0,3}", "[a-z]{0,2}")
            .prop_map(|(thinking, signature)| ContentBlock::Thinking { thinking, signature }),
        Just(ContentBlock::Compaction { content: "sum".into() }),
        any::<bool>().prop_map(|own| raw(
            if own { "ollama" } else { "other" },
            json!({"type": "message", "refusal": "r"}),
            (!own).then(|| text("t"))
        )),
    ];
    (
        prop::collection::vec(user, 0..3),
        prop::collection::vec((0_u8..6, 0_u8..4), 0..3),
        prop::collection::vec(model, 0..4),
        any::<bool>(),
    )
}

/// Generates a conversation. Also returns each number of leading messages that form a valid conversation by themselves.
fn history() -> impl Strategy<Value = (Vec<Message>, Vec<usize>)> {
    prop::collection::vec(turn(), 0..6).prop_map(|turns| {
        let mut messages = vec![Message::user("hi")];
        let mut ends = vec![1];
        for (index, (user, calls, model, system)) in turns.into_iter().enumerate() {
            messages.push(Message { role: Role::User, content: user });
            ends.push(messages.len());
            let (mut asked, mut answered) = (model, Vec::new());
            for (position, (input, outcome)) in calls.into_iter().enumerate() {
                // Later turns repeat the ids of earlier turns.
                let id = format!("call_{}_{position}", index % 2);
                let inputs = [
                    json!(null),
                    json!({}),
                    json!([1]),
                    json!({"b": 0.1, "a": {"z": "🦀"}}),
                    json!("s"),
                    json!(7),
                ];
                let name = format!("tool_{index}");
                asked.push(call(&id, &name, inputs[usize::from(input)].clone()));
                let outcomes = [
                    vec![],
                    vec![said("fine")],
                    vec![said(" ")],
                    vec![ContentItem::Image { source: png() }],
                ];
                let outcome = outcomes[usize::from(outcome)].clone();
                answered.push(result(&id, outcome, position == 1));
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
        let extra = with_extra.then(|| json!({"options": {"seed": 7}, "shift": true}));
        let long = CompletionRequest {
            system: Some("be kind".into()),
            tools: vec![tool("look", json!({"type": "object"}))],
            temperature: Some(0.1),
            extra,
            ..talk(messages)
        };
        let end = ends[cut.index(ends.len())];
        let short =
            CompletionRequest { messages: long.messages[..end].to_vec(), ..long.clone() };
        let bytes = |request: RequestRef<'_>| write(request, DEFAULTS, true).unwrap();
        let (short_bytes, long_bytes) = (bytes(short.view()), bytes(long.view()));
        let Some(beginning) = short_bytes.strip_suffix(b"]}") else {
            panic!("messages come last");
        };
        prop_assert!(long_bytes.starts_with(beginning));
        prop_assert!(matches!(long_bytes[beginning.len()], b',' | b']'));
        prop_assert_eq!(&bytes(long.clone().view()), &long_bytes);

        let json: Value = serde_json::from_slice(&long_bytes).unwrap();
        prop_assert_eq!(check_chat_request(&json), Ok(()));
        for message in json["messages"].as_array().unwrap() {
            prop_assert!(message["content"].is_string());
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                prop_assert!(call["function"]["arguments"].is_object());
            }
            let is_result = message["role"] == "tool";
            prop_assert_eq!(message["tool_call_id"].is_string(), is_result);
            prop_assert_eq!(message["tool_name"].is_string(), is_result);
        }
    }
}

#[test]
fn strict_tools_and_vendor_fields_are_mapped() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let tool = ToolDefinition { description: "d".into(), ..tool("act", schema) }
        .strict()
        .with_vendor_field("ollama", "defer_loading", true)
        .with_vendor_field("ollama", "name", "ignored")
        .with_vendor_field("another", "other", true);
    let request = CompletionRequest { tools: vec![tool], ..talk(vec![Message::user("hi")]) };
    assert_eq!(
        json_of(request.view())["tools"][0],
        json!({
            "type": "function",
            "function": {
                "name": "act", "description": "d", "defer_loading": true,
                "parameters": { "type": "object", "properties": { "a": { "type": "string" } } },
            },
        })
    );
}
