//! Tests of the JSON of each part of a request. Other tests check that the body of a longer conversation begins with
//! the bytes of a shorter one, because prompt caches need this.

use neuron_model::{
    CacheControl, CompletionRequest, ContentBlock, ContentItem, ContextEdit, ContextManagement,
    DocumentSource, EmbeddedResource, ImageSource, RequestRef, SystemBlock, ToolAnnotations,
    ToolCall,
};
use neuron_testing::openai::check_chat_request;
use serde_json::json;

use super::*;
use crate::dialect::{ReasoningBack, SystemRole};
use crate::request_checks::{history, items_of_others, strict_tool, tool};

fn json_with(request: RequestRef<'_>, settings: Settings<'_>) -> Value {
    serde_json::from_slice(&write(request, "m", settings, false).unwrap()).unwrap()
}

/// Checks the serialised body of a request. `expected` omits the fields that every body has.
#[track_caller]
fn check(request: RequestRef<'_>, expected: Value) {
    let mut json = json_with(request, Settings::default());
    let fields = json.as_object_mut().unwrap();
    for (key, usual) in [("model", json!("m")), ("messages", json!([]))] {
        if fields.get(key) == Some(&usual) {
            fields.shift_remove(key);
        }
    }
    assert_eq!(json, expected);
}

/// Checks that `messages` are serialised as the JSON `expected`.
#[track_caller]
fn check_messages(messages: Vec<Message>, expected: Value) {
    let json = json_with(talk(messages).view(), Settings::default());
    assert_eq!(json["messages"], expected);
}

/// Checks that an assistant message with the blocks `content` is serialised as the JSON `expected`.
#[track_caller]
fn check_answer(content: Vec<ContentBlock>, expected: Value) {
    check_messages(vec![message(Role::Assistant, content)], json!([expected]));
}

fn message(role: Role, content: Vec<ContentBlock>) -> Message {
    Message { role, content }
}

fn talk(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, ..Default::default() }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}

fn called(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn result(id: &str, content: Vec<ContentItem>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error }
}

fn words(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

fn png() -> ImageSource {
    ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() }
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

#[test]
fn options_are_mapped_and_unset_ones_omitted() {
    check(CompletionRequest::default().view(), json!({}));
    check(
        CompletionRequest {
            max_tokens: Some(7),
            temperature: Some(0.7),
            top_p: Some(0.95),
            stop_sequences: vec!["a".into(), "b".into()],
            ..Default::default()
        }
        .view(),
        json!({"max_completion_tokens": 7, "temperature": 0.7, "top_p": 0.95, "stop": ["a", "b"]}),
    );
    let body = write(CompletionRequest::default().view(), "m", Settings::default(), true).unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#
    );
}

#[test]
fn thinking_is_mapped_to_effort() {
    let budget = ThinkingConfig::Enabled { budget_tokens: 5 };
    for (effort, thinking, expected) in [
        (Some(ReasoningEffort::None), None, Some("none")),
        (Some(ReasoningEffort::Low), Some(ThinkingConfig::Disabled), Some("low")),
        (Some(ReasoningEffort::Medium), Some(budget), Some("medium")),
        (Some(ReasoningEffort::High), None, Some("high")),
        (None, Some(ThinkingConfig::Disabled), Some("none")),
        (None, Some(ThinkingConfig::Adaptive), None),
        (None, Some(budget), None),
    ] {
        let request =
            CompletionRequest { reasoning_effort: effort, thinking, ..Default::default() };
        let json = json_with(request.view(), Settings::default());
        assert_eq!(json.get("reasoning_effort").and_then(Value::as_str), expected);
    }
}

#[test]
fn response_formats_are_mapped() {
    let form = |form| CompletionRequest { response_format: Some(form), ..Default::default() };
    check(form(ResponseFormat::Text).view(), json!({}));
    check(
        form(ResponseFormat::JsonObject).view(),
        json!({"response_format": {"type": "json_object"}}),
    );
    let schema = json!({"type": "object"});
    check(
        form(ResponseFormat::JsonSchema { name: "n".into(), schema, strict: true }).view(),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}}}),
    );
}

#[test]
fn tools_and_tool_choice_are_mapped() {
    let with = |tool_choice| CompletionRequest {
        tools: vec![ToolDefinition {
            title: Some("not sent".into()),
            output_schema: Some(json!({})),
            annotations: Some(ToolAnnotations::default()),
            cache_control: Some(CacheControl::default()),
            ..tool("look")
        }],
        tool_choice,
        ..Default::default()
    };
    let sent = json!([{"type": "function", "function": {"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {}}}}]);
    check(with(None).view(), json!({"tools": sent}));
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (
            ToolChoice::Specific { name: "look".into() },
            json!({"type": "function", "function": {"name": "look"}}),
        ),
    ] {
        check(with(Some(choice)).view(), json!({"tools": sent, "tool_choice": expected}));
    }
    for choice in [ToolChoice::Auto, ToolChoice::None] {
        let request = CompletionRequest { tool_choice: Some(choice), ..Default::default() };
        check(request.view(), json!({}));
    }
    let one = Settings { disables_parallel_calls: true, ..Settings::default() };
    assert_eq!(json_with(with(None).view(), one)["parallel_tool_calls"], json!(false));
    let json = json_with(CompletionRequest::default().view(), one);
    assert_eq!(json.get("parallel_tool_calls"), None, "the API takes it with tools only");
}

/// An object schema without `properties` must be sent with empty `properties`. Regression test. OpenAI rejected every
/// request with a tool without arguments.
#[test]
fn object_schema_always_has_properties() {
    for (schema, expected) in [
        (
            json!({"type": "object", "title": "T"}),
            json!({"type": "object", "title": "T", "properties": {}}),
        ),
        (
            json!({"type": "object", "properties": {"a": true}}),
            json!({"type": "object", "properties": {"a": true}}),
        ),
        (json!({}), json!({"type": "object", "properties": {}})),
        (json!(true), json!({"type": "object", "properties": {}})),
        (
            json!({"oneOf": [{"properties": {"a": true}}, {"type": "string"}]}),
            json!({"type": "object", "properties": {"a": true}}),
        ),
    ] {
        let tools = vec![ToolDefinition { input_schema: schema, ..tool("look") }];
        let request = CompletionRequest { tools, ..CompletionRequest::default() };
        let json = json_with(request.view(), Settings::default());
        assert_eq!(json["tools"][0]["function"]["parameters"], expected);
    }
}

#[test]
fn arguments_that_are_no_object_are_an_error_that_names_the_tool() {
    let tools = vec![ToolDefinition { input_schema: json!({"type": "array"}), ..tool("look") }];
    let request = CompletionRequest { tools, ..CompletionRequest::default() };
    let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: cannot be written: the tool `look`: its input schema describes no object, but arguments are \
         always an object: use for example a struct with named fields"
    );
}

#[test]
fn extra_is_merged_and_its_tools_are_appended() {
    let request = CompletionRequest {
        max_tokens: Some(7),
        tools: vec![tool("look")],
        extra: Some(json!({
            "max_completion_tokens": null,
            "stream_options": {"include_obfuscation": false},
            "tools": [{"type": "custom", "custom": {"name": "sql"}}],
            "seed": 1,
        })),
        ..talk(vec![Message::user("hi")])
    };
    let body = write(request.view(), "m", Settings::default(), true).unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"max_completion_tokens":null,"tools":[{"type":"function","function":{"name":"look","description":"Looks","parameters":{"type":"object","properties":{}}}},{"type":"custom","custom":{"name":"sql"}}],"seed":1,"messages":[{"role":"user","content":"hi"}]}"#
    );
    let request = CompletionRequest { extra: Some(json!([])), ..Default::default() };
    let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
    assert!(error.to_string().contains("must be a JSON object"));
}

#[test]
fn system_prompt_has_configured_role() {
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let with = |system: SystemPrompt| CompletionRequest {
        system: Some(system),
        ..talk(vec![Message::system("now"), Message::system("")])
    };
    let dialect = Dialect { system_role: SystemRole::System, ..Dialect::openai() };
    let settings = Settings { dialect: &dialect, ..Settings::default() };
    for (settings, role) in [(Settings::default(), "developer"), (settings, "system")] {
        let json = json_with(with("be kind".into()).view(), settings);
        let now = json!({"role": role, "content": "now"});
        assert_eq!(json["messages"], json!([{"role": role, "content": "be kind"}, now]));
        let blocks = vec![block("a"), block(" "), block("b")];
        let json = json_with(with(SystemPrompt::Blocks(blocks)).view(), settings);
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(json["messages"], json!([{"role": role, "content": parts}, now]));
        for empty in [SystemPrompt::from("\n"), SystemPrompt::Blocks(vec![block("")])] {
            assert_eq!(json_with(with(empty).view(), settings)["messages"], json!([now]));
        }
    }
}

#[test]
fn user_content_is_mapped() {
    let user = |content| vec![message(Role::User, content)];
    check_messages(user(vec![text("a")]), json!([{"role": "user", "content": "a"}]));
    check_messages(user(vec![text("")]), json!([]));
    check_messages(user(vec![]), json!([]));
    let document = |source| ContentBlock::Document { source };
    check_messages(
        user(vec![
            text("a"),
            ContentBlock::Image { source: png() },
            ContentBlock::Image { source: ImageSource::Url { url: "https://h/a".into() } },
            document(DocumentSource::Base64Pdf { data: "aGk=".into() }),
            document(DocumentSource::PlainText { data: "plain".into() }),
        ]),
        json!([{"role": "user", "content": [
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "image_url", "image_url": {"url": "https://h/a"}},
            {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="}},
            {"type": "text", "text": "plain"},
        ]}]),
    );
}

/// The API rejects other spellings of the types that it accepts.
#[test]
fn types_of_images_are_sent_as_the_api_spells_them() {
    for (given, sent) in [("image/jpg", "image/jpeg"), ("Image/PNG; q=1", "image/png")] {
        let image = |source| ContentBlock::Image { source };
        let url = format!("data:{given};base64,aGk=");
        let part = json!({
            "type": "image_url", "image_url": {"url": format!("data:{sent};base64,aGk=")},
        });
        check_messages(
            vec![message(
                Role::User,
                vec![
                    image(ImageSource::Base64 { media_type: given.into(), data: "aGk=".into() }),
                    image(ImageSource::Url { url: url.clone() }),
                ],
            )],
            json!([{"role": "user", "content": [part, part]}]),
        );
        // Regression test. The URL of an image in a tool result was sent unchanged.
        let image = ContentItem::Image { source: ImageSource::Url { url } };
        check_messages(
            vec![message(Role::User, vec![result("c1", vec![image], false)])],
            json!([
                {"role": "tool", "tool_call_id": "c1", "content": "[the image follows]"},
                {"role": "user", "content": [part]},
            ]),
        );
    }
}

/// A raw block in a user message must be sent unchanged if it contains a content part of the API, such as speech.
/// Regression test.
#[test]
fn raw_parts_are_sent_unchanged() {
    let audio = json!({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}});
    let detailed =
        json!({"type": "image_url", "image_url": {"url": "https://h/a", "detail": "low"}});
    let image = ContentBlock::Image { source: png() };
    check_messages(
        vec![message(
            Role::User,
            vec![
                raw("openai", audio.clone(), None),
                raw("openai", detailed.clone(), Some(image.clone())),
                raw("openai", json!({"type": "input_image", "file_id": "f"}), Some(image)),
                raw("openai", json!({"type": "computer_call_output"}), None),
                raw("anthropic", audio.clone(), Some(text("said"))),
            ],
        )],
        json!([{"role": "user", "content": [
            audio,
            detailed,
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "text", "text": "said"},
        ]}]),
    );
}

#[test]
fn tool_results_precede_their_images() {
    let image = ContentItem::Image { source: png() };
    check_messages(
        vec![message(
            Role::User,
            vec![
                text("hurry"),
                result("c1", vec![words("1"), image], false),
                result("c2", vec![], true),
                result("c3", vec![words("3")], true),
                raw("anthropic", json!({}), Some(result("c4", vec![words("4")], false))),
            ],
        )],
        json!([
            {"role": "tool", "tool_call_id": "c1", "content": "1\n[the image follows]"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: "},
            {"role": "tool", "tool_call_id": "c3", "content": "Error: 3"},
            {"role": "tool", "tool_call_id": "c4", "content": "4"},
            {"role": "user", "content": [
                {"type": "text", "text": "hurry"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ]},
        ]),
    );
}

/// Images that the API accepts must be sent, and other resources must be described by text. An MCP server may return
/// any type of resource, including images of unusual types.
#[test]
fn image_resources_are_sent_and_others_described() {
    check_messages(
        vec![message(Role::User, vec![result("c1", items_of_others(), false)])],
        json!([
            {"role": "tool", "tool_call_id": "c1", "content": "[audio, audio/wav]\n\
                [resource file:///a]\nhi\n\
                [the image follows]\n\
                [resource file:///a, application/pdf]\n\
                [resource file:///a, application/zip]\n\
                [image]\n\
                [link to resource file:///a: a]"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
            ]},
        ]),
    );
    let resource = EmbeddedResource::text("file:///a", "hi");
    check_messages(
        vec![message(
            Role::User,
            vec![result("c1", vec![ContentItem::Resource { resource }], true)],
        )],
        json!([{"role": "tool", "tool_call_id": "c1", "content": "Error: [resource file:///a]\nhi"}]),
    );
}

#[test]
fn assistant_content_is_mapped() {
    check_answer(
        vec![text("a"), text(""), text("b")],
        json!({"role": "assistant", "content": "ab"}),
    );
    check_answer(
        vec![text("a"), call("c1", "look", json!({"z": 1, "a": 2})), call("c2", "look", json!({}))],
        json!({"role": "assistant", "content": "a", "tool_calls": [
            called("c1", "look", "{\"z\":1,\"a\":2}"),
            called("c2", "look", "{}"),
        ]}),
    );
    check_answer(
        vec![call("c1", "look", ToolCall::invalid_json_input("{\"a\":"))],
        json!({"role": "assistant", "tool_calls": [called("c1", "look", r#"{"invalid_json":"{\"a\":"}"#)]}),
    );
    let summary = ContentBlock::Compaction { content: "so far".into() };
    check_answer(vec![summary], json!({"role": "assistant", "content": "so far"}));
    let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() };
    let nothing = vec![
        thinking,
        ContentBlock::RedactedThinking { data: "x".into() },
        raw("anthropic", json!({"type": "server_tool_use"}), None),
        text(""),
    ];
    check_messages(vec![message(Role::Assistant, nothing)], json!([]));
}

#[test]
fn unknown_fields_are_sent_back_in_the_message() {
    let own = |mut json: Value, portable: Option<ContentBlock>| {
        json["type"] = json!("message");
        raw("openai", json, portable)
    };
    check_answer(
        vec![own(json!({"refusal": "No."}), Some(text("No.")))],
        json!({"role": "assistant", "refusal": "No."}),
    );
    let audio = json!({"id": "audio_1", "data": "AAAA", "transcript": "Hi"});
    check_answer(
        vec![own(json!({"audio": audio}), Some(text("Hi")))],
        json!({"role": "assistant", "audio": {"id": "audio_1"}}),
    );
    check_answer(
        vec![text("a"), own(json!({"annotations": [1], "content_parts": [2], "new": 3}), None)],
        json!({"role": "assistant", "content": "a"}),
    );
    // The API requires `content` if no other field replaces it.
    check_answer(
        vec![own(json!({"reasoning_details": [1]}), None)],
        json!({"role": "assistant", "content": "", "reasoning_details": [1]}),
    );
    let custom = json!({"id": "c", "type": "custom", "custom": {"name": "sql", "input": "x"}});
    check_answer(
        vec![raw("openai", custom.clone(), Some(call("c", "sql", json!("x"))))],
        json!({"role": "assistant", "tool_calls": [custom]}),
    );
    // A provider that did not create the raw block receives the portable block inside it.
    check_answer(
        vec![raw("another", json!({"type": "message", "refusal": "No."}), Some(text("No.")))],
        json!({"role": "assistant", "content": "No."}),
    );
}

#[test]
fn items_of_responses_api_are_sent_as_portable_blocks() {
    check_answer(
        vec![
            raw("openai", json!({"type": "reasoning", "id": "rs_1", "summary": []}), None),
            raw(
                "openai",
                json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "a"}]}),
                Some(text("a")),
            ),
            raw(
                "openai",
                json!({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x"}),
                Some(call("c", "sql", json!("x"))),
            ),
        ],
        json!({"role": "assistant", "content": "a", "tool_calls": [called("c", "sql", r#"{"input":"x"}"#)]}),
    );
}

#[test]
fn reasoning_is_sent_back_to_dialects_that_require_it() {
    let thinking = |text: &str, signature: &str| ContentBlock::Thinking {
        thinking: text.into(),
        signature: signature.into(),
    };
    let request = talk(vec![message(
        Role::Assistant,
        vec![thinking("h", ""), thinking("of another", "signed"), thinking("m", ""), text("a")],
    )]);
    let dialect = Dialect { reasoning: ReasoningBack::Always, ..Dialect::openai() };
    let settings = Settings { dialect: &dialect, ..Settings::default() };
    assert_eq!(
        json_with(request.view(), settings)["messages"],
        json!([{"role": "assistant", "content": "a", "reasoning_content": "hm"}])
    );
    assert_eq!(
        json_with(request.view(), Settings::default())["messages"],
        json!([{"role": "assistant", "content": "a"}])
    );
    let alone = talk(vec![message(Role::Assistant, vec![thinking("hm", "")])]);
    assert_eq!(
        json_with(alone.view(), settings)["messages"],
        json!([{"role": "assistant", "content": "", "reasoning_content": "hm"}])
    );
}

/// A tool call without reasoning must be sent to DeepSeek and Moonshot with a space as its reasoning, because these
/// servers reject the call otherwise. Regression test.
#[test]
fn calls_without_reasoning_are_sent_with_a_space() {
    let call = ContentBlock::ToolUse { id: "c".into(), name: "look".into(), input: json!({}) };
    let thinking = |thinking: &str| ContentBlock::Thinking {
        thinking: thinking.into(),
        signature: String::new(),
    };
    for (dialect, expected) in [
        (Dialect::deepseek(), [json!(" "), json!(" "), json!("hm"), Value::Null]),
        (Dialect::moonshot(), [json!(" "), json!(" "), json!("hm"), Value::Null]),
        (Dialect::openai(), [Value::Null, Value::Null, Value::Null, Value::Null]),
    ] {
        let settings = Settings { dialect: &dialect, ..Settings::default() };
        let request = talk(vec![
            message(Role::Assistant, vec![call.clone()]),
            message(Role::Assistant, vec![thinking(""), call.clone()]),
            message(Role::Assistant, vec![thinking("hm"), call.clone()]),
            message(Role::Assistant, vec![text("a")]),
        ]);
        let body = json_with(request.view(), settings);
        for (position, expected) in expected.iter().enumerate() {
            assert_eq!(&body["messages"][position]["reasoning_content"], expected, "{dialect:?}");
        }
    }
}

/// Call ids of other vendors must be replaced by short ids for Mistral, which rejects them with status 400.
#[test]
fn call_ids_are_shortened_for_dialects_that_require_it() {
    let long = "toolu_01A09q90qw90lq917835lq9";
    let request = talk(vec![
        message(
            Role::Assistant,
            vec![call(long, "look", json!({})), call("AbCd01234", "look", json!({}))],
        ),
        message(Role::User, vec![result(long, vec![], false), result("AbCd01234", vec![], false)]),
    ]);
    let dialect = Dialect::mistral();
    let settings = Settings { dialect: &dialect, ..Settings::default() };
    let sent = &json_with(request.view(), settings)["messages"];
    let short = sent[0]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(short.len() == 9 && short.chars().all(|c| c.is_ascii_alphanumeric()), "{short}");
    assert_eq!(
        (&sent[1]["tool_call_id"], &sent[2]["tool_call_id"]),
        (&json!(short), &json!("AbCd01234"))
    );
    assert_eq!(sent[0]["tool_calls"][1]["id"], "AbCd01234");
    assert_ne!(dialect.call_id("toolu_01A09q90qw90lq917835lq8"), short);
    assert_eq!(Dialect::openai().call_id(long), long);
}

#[test]
fn reasoning_is_sent_back_in_the_dialects_field() {
    let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() };
    let request = talk(vec![message(Role::Assistant, vec![thinking, text("a")])]);
    for (dialect, field) in [
        (Dialect::openrouter(), "reasoning"),
        (Dialect::groq(), "reasoning"),
        (Dialect::cerebras(), "reasoning"),
        (Dialect::vllm(), "reasoning"),
        (Dialect::ollama(), "reasoning"),
        (Dialect::sglang(), "reasoning_content"),
    ] {
        let dialect = Dialect { reasoning: ReasoningBack::Always, ..dialect };
        let settings = Settings { dialect: &dialect, ..Settings::default() };
        assert_eq!(
            json_with(request.view(), settings)["messages"],
            json!([{"role": "assistant", "content": "a", field: "hm"}])
        );
    }
}

/// A call of a tool that does not exist must be sent back with a valid name. Regression test. OpenAI rejected every
/// later request because of the invalid name.
#[test]
fn calls_with_invalid_names_are_renamed() {
    let named = |name: &str| {
        let request = CompletionRequest {
            tools: vec![tool("dotted.name")],
            ..talk(vec![message(Role::Assistant, vec![call("c", name, json!({}))])])
        };
        let mut json = json_with(request.view(), Settings::default());
        json["messages"][0]["tool_calls"][0]["function"]["name"].take()
    };
    assert_eq!(named("look-At_1"), "look-At_1");
    assert_eq!(named("functions.look"), "functions_look");
    assert_eq!(named("süß 🦀"), "s____");
    assert_eq!(named(""), "unnamed");
    assert_eq!(named(&"x".repeat(65)), "x".repeat(64));
    assert_eq!(named("dotted.name"), "dotted_name");
    assert_eq!(named("dotted_name"), "dotted_name_2", "the name of the tool in the request");
}

#[test]
fn content_that_the_api_cannot_express_is_rejected() {
    let request = CompletionRequest {
        context_management: Some(ContextManagement {
            edits: vec![ContextEdit::Compact { strategy: "x".into() }],
        }),
        ..Default::default()
    };
    let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    let none = Some(ContextManagement::default());
    check(CompletionRequest { context_management: none, ..Default::default() }.view(), json!({}));
    let source = DocumentSource::Url { url: "https://h/a.pdf".into() };
    let document = ContentBlock::Document { source };
    // Regression test. A document in a portable block was omitted silently.
    for block in [document.clone(), raw("anthropic", json!({}), Some(document))] {
        let request = talk(vec![message(Role::User, vec![block])]);
        let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
        assert_eq!(error.kind(), "InvalidRequest");
    }
}

/// Property tests for conversations. The body of a longer conversation must begin with the bytes of a shorter one,
/// because prompt caches need this. Both bodies must have OpenAI's request format.
mod conversations {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn growing_conversation_keeps_byte_prefix_and_is_accepted(
            (messages, ends) in history(),
            cut in any::<prop::sample::Index>(),
            with_extra in any::<bool>(),
        ) {
            let long = CompletionRequest {
                system: Some("be kind".into()),
                tools: vec![tool("look")],
                extra: with_extra.then(|| json!({"seed": 7, "metadata": {"user": "u"}})),
                ..talk(messages)
            };
            let messages = long.messages[..ends[cut.index(ends.len())]].to_vec();
            let short = CompletionRequest { messages, ..long.clone() };
            let bytes =
                |request: RequestRef<'_>| write(request, "m", Settings::default(), true).unwrap();
            let (short_bytes, long_bytes) = (bytes(short.view()), bytes(long.view()));
            let beginning = short_bytes.strip_suffix(b"]}").expect("messages come last");
            prop_assert!(long_bytes.starts_with(beginning));
            prop_assert!(matches!(long_bytes[beginning.len()], b',' | b']'));
            prop_assert_eq!(&bytes(long.clone().view()), &long_bytes);
            for body in [short_bytes, long_bytes] {
                let json = serde_json::from_slice(&body).unwrap();
                prop_assert_eq!(check_chat_request(&json), Ok(()));
            }
        }
    }
}

/// The field `strict` of a tool must not be sent to servers that reject the field. Regression test.
#[test]
fn strict_is_omitted_for_servers_that_reject_it() {
    let tool = tool("act").strict();
    let request = CompletionRequest { tools: vec![tool], ..talk(vec![Message::user("hi")]) };
    for (dialect, is_sent) in [
        (Dialect::openai(), true),
        (Dialect::vllm(), true),
        (Dialect::deepseek(), false),
        (Dialect::moonshot(), false),
        (Dialect::ollama(), false),
        (Dialect::snowflake("a"), false),
    ] {
        let settings = Settings { dialect: &dialect, ..Settings::default() };
        let chat = json_with(request.view(), settings);
        assert_eq!(chat["tools"][0]["function"].get("strict").is_some(), is_sent, "{dialect:?}");
        let response = crate::responses::request::write(request.view(), "m", settings, false);
        let response: Value = serde_json::from_slice(&response.unwrap()).unwrap();
        assert_eq!(response["tools"][0].get("strict").is_some(), is_sent, "{dialect:?}");
    }
}

#[test]
fn strict_tools_and_vendor_fields_are_mapped() {
    let request =
        CompletionRequest { tools: vec![strict_tool()], ..talk(vec![Message::user("hi")]) };
    assert_eq!(
        json_with(request.view(), Settings::default())["tools"][0],
        json!({
            "type": "function",
            "function": {
                "name": "act", "description": "d", "strict": true, "defer_loading": true,
                "parameters": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false },
            },
        })
    );
}

/// The API rejected these requests. Regression test.
#[test]
fn request_that_the_api_rejects_is_an_error() {
    let check = |request: CompletionRequest, expected: &str| {
        let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid request: {expected}"));
    };
    let choose = |tools, choice| CompletionRequest {
        tools,
        tool_choice: Some(choice),
        ..CompletionRequest::default()
    };
    let no_tools = "a forced tool call needs tools: add them, or use ToolChoice::Auto";
    check(choose(vec![], ToolChoice::Required), no_tools);
    check(
        choose(vec![tool("look")], ToolChoice::Specific { name: "find".into() }),
        "the tool choice names `find`, and the request has no such tool: add it, or choose another tool",
    );
    let bmp = ImageSource::Url { url: "data:image/bmp;base64,aGk=".into() };
    let content = vec![ContentBlock::Image { source: bmp.clone() }];
    let image = talk(vec![Message { role: Role::User, content }]);
    check(
        image.clone(),
        "OpenAI does not accept an image of the type `image/bmp`: send it as PNG, JPEG, GIF or WebP",
    );
    let stop = |sequences: &[&str]| CompletionRequest {
        stop_sequences: sequences.iter().map(|&sequence| sequence.to_owned()).collect(),
        ..CompletionRequest::default()
    };
    let many = stop(&["a", "b", "c", "d", "e"]);
    check(
        many.clone(),
        "OpenAI accepts at most 4 stop sequences, and the request has 5: leave some out",
    );
    check(stop(&[""]), "a stop sequence is empty: leave it out");
    json_with(stop(&["\n", "b", "c", "d"]).view(), Settings::default());
    // Other servers have other limits.
    let dialect = Dialect::new("http://localhost");
    let settings = Settings { dialect: &dialect, ..Settings::default() };
    assert!(write(image.view(), "m", settings, false).is_ok());
    assert!(write(many.view(), "m", settings, false).is_ok());
}

/// An image of a tool must not make every later request fail. Regression test.
#[test]
fn image_of_a_tool_that_the_api_rejects_becomes_text() {
    let result = |url: &str| ContentBlock::ToolResult {
        tool_use_id: "c1".into(),
        content: vec![ContentItem::Image { source: ImageSource::Url { url: url.into() } }],
        is_error: false,
    };
    let sent = |url: &str| {
        let messages = vec![Message { role: Role::User, content: vec![result(url)] }];
        json_with(talk(messages).view(), Settings::default())["messages"].clone()
    };
    let text = json!([{"role": "tool", "tool_call_id": "c1", "content": "[image]"}]);
    assert_eq!(sent("data:image/bmp;base64,aGk="), text);
    let image = &sent("data:image/jpg;base64,aGk=")[1]["content"][0]["image_url"]["url"];
    assert_eq!(*image, "data:image/jpeg;base64,aGk=");
}
