//! Tests of the JSON of each part of a request. Other tests check that the body of a longer conversation begins with
//! the bytes of a shorter one, because prompt caches need this.

use neuron_model::{
    CompletionRequest, ContextManagement, EmbeddedResource, ImageSource, ReasoningEffort,
    RequestRef, SystemBlock, ToolCall,
};
use neuron_testing::openai::check_responses_request;
use serde_json::json;

use super::*;
use crate::dialect::{Dialect, SystemRole};
use crate::request_checks::{history, items_of_others, strict_tool, tool};

fn json_with(request: RequestRef<'_>, settings: Settings<'_>) -> Value {
    serde_json::from_slice(&write(request, "m", settings, false).unwrap()).unwrap()
}

/// Checks the serialised body of a request. `expected` omits the fields that every body has.
#[track_caller]
fn check(request: RequestRef<'_>, expected: Value) {
    let mut json = json_with(request, Settings::default());
    let fields = json.as_object_mut().unwrap();
    for (key, usual) in [
        ("model", json!("m")),
        ("store", json!(false)),
        ("include", json!(["reasoning.encrypted_content"])),
        ("input", json!([])),
    ] {
        if fields.get(key) == Some(&usual) {
            fields.shift_remove(key);
        }
    }
    assert_eq!(json, expected);
}

/// Checks that `messages` are serialised as the JSON `expected`.
#[track_caller]
fn check_input(messages: Vec<Message>, expected: Value) {
    assert_eq!(json_with(talk(messages).view(), Settings::default())["input"], expected);
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

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
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

fn own(json: &Value) -> ContentBlock {
    crate::responses::response::item(json.clone())
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

fn said() -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "phase": "final_answer", "content": [{"type": "output_text", "text": "a", "annotations": []}]})
}

#[test]
fn options_are_mapped_and_store_is_false() {
    let body = write(CompletionRequest::default().view(), "m", Settings::default(), true).unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"input":[]}"#
    );
    check(
        CompletionRequest {
            max_tokens: Some(16),
            temperature: Some(0.7),
            top_p: Some(0.95),
            system: Some("be kind".into()),
            ..Default::default()
        }
        .view(),
        json!({"max_output_tokens": 16, "temperature": 0.7, "top_p": 0.95, "instructions": "be kind"}),
    );
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let system = SystemPrompt::Blocks(vec![block("a"), block(" "), block("b")]);
    let with = |system| CompletionRequest { system: Some(system), ..Default::default() };
    check(with(system).view(), json!({"instructions": "a\n\nb"}));
    check(with("\n".into()).view(), json!({}));
}

#[test]
fn enabled_thinking_requests_summary() {
    let budget = ThinkingConfig::Enabled { budget_tokens: 5 };
    for (effort, thinking, expected) in [
        (None, None, json!(null)),
        (Some(ReasoningEffort::Low), None, json!({"effort": "low"})),
        (None, Some(ThinkingConfig::Disabled), json!({"effort": "none"})),
        (None, Some(ThinkingConfig::Adaptive), json!({"summary": "auto"})),
        (Some(ReasoningEffort::High), Some(budget), json!({"effort": "high", "summary": "auto"})),
    ] {
        let request =
            CompletionRequest { reasoning_effort: effort, thinking, ..Default::default() };
        let json = json_with(request.view(), Settings::default());
        assert_eq!(json.get("reasoning").cloned().unwrap_or_default(), expected);
    }
}

#[test]
fn response_formats_are_mapped() {
    let form = |form| CompletionRequest { response_format: Some(form), ..Default::default() };
    check(form(ResponseFormat::Text).view(), json!({}));
    check(
        form(ResponseFormat::JsonObject).view(),
        json!({"text": {"format": {"type": "json_object"}}}),
    );
    let schema = json!({"type": "object"});
    check(
        form(ResponseFormat::JsonSchema { name: "n".into(), schema, strict: false }).view(),
        json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": false}}}),
    );
}

#[test]
fn tools_and_tool_choice_are_mapped() {
    let with = |tool_choice| CompletionRequest {
        tools: vec![tool("look")],
        tool_choice,
        ..Default::default()
    };
    let sent = json!([{"type": "function", "name": "look", "description": "Looks",
        "parameters": {"type": "object", "properties": {}}, "strict": false}]);
    check(with(None).view(), json!({"tools": sent}));
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Specific { name: "look".into() }, json!({"type": "function", "name": "look"})),
    ] {
        check(with(Some(choice)).view(), json!({"tools": sent, "tool_choice": expected}));
    }
    let one = Settings { disables_parallel_calls: true, ..Settings::default() };
    assert_eq!(json_with(with(None).view(), one)["parallel_tool_calls"], json!(false));
}

#[test]
fn extra_is_merged_and_its_tools_are_appended() {
    let request = CompletionRequest {
        tools: vec![tool("look")],
        thinking: Some(ThinkingConfig::Adaptive),
        extra: Some(json!({
            "store": true,
            "include": [],
            "reasoning": {"context": "all_turns"},
            "tools": [{"type": "web_search"}],
            "truncation": "auto",
        })),
        ..talk(vec![Message::user("hi")])
    };
    let json = json_with(request.view(), Settings::default());
    assert_eq!((&json["store"], &json["include"]), (&json!(true), &json!([])));
    assert_eq!(json["reasoning"], json!({"summary": "auto", "context": "all_turns"}));
    assert_eq!(json["tools"][1], json!({"type": "web_search"}));
    assert_eq!(check_responses_request(&json), Ok(()));
    assert_eq!(json.as_object().unwrap().keys().next_back().unwrap(), "input");
}

#[test]
fn context_edits_are_mapped() {
    let edits = vec![
        ContextEdit::Compact { strategy: "compaction".into() },
        ContextEdit::Raw { json: json!({"type": "compaction", "compact_threshold": 5}) },
    ];
    check(
        CompletionRequest {
            context_management: Some(ContextManagement { edits }),
            ..Default::default()
        }
        .view(),
        json!({"context_management": [{"type": "compaction"}, {"type": "compaction", "compact_threshold": 5}]}),
    );
}

#[test]
fn stop_sequences_are_rejected() {
    let request = CompletionRequest { stop_sequences: vec!["a".into()], ..Default::default() };
    let error = write(request.view(), "m", Settings::default(), false).unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
}

#[test]
fn user_content_is_mapped() {
    let user = |content| vec![message(Role::User, content)];
    check_input(user(vec![text("a")]), json!([{"role": "user", "content": "a"}]));
    check_input(user(vec![text("")]), json!([]));
    let document = |source| ContentBlock::Document { source };
    let file = json!({"type": "input_file", "file_id": "file_1"});
    check_input(
        user(vec![
            text("a"),
            ContentBlock::Image { source: png() },
            document(DocumentSource::Base64Pdf { data: "aGk=".into() }),
            document(DocumentSource::PlainText { data: "plain".into() }),
            document(DocumentSource::Url { url: "https://h/a.pdf".into() }),
            raw("openai", file.clone(), None),
        ]),
        json!([{"role": "user", "content": [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="},
            {"type": "input_text", "text": "plain"},
            {"type": "input_file", "file_url": "https://h/a.pdf"},
            file,
        ]}]),
    );
    let settings = Settings {
        dialect: &Dialect { system_role: SystemRole::System, ..Dialect::openai() },
        ..Settings::default()
    };
    for (settings, role) in [(Settings::default(), "developer"), (settings, "system")] {
        let json =
            json_with(talk(vec![Message::system("now"), Message::system("")]).view(), settings);
        assert_eq!(json["input"], json!([{"role": role, "content": "now"}]));
    }
}

#[test]
fn tool_results_are_items_and_come_first() {
    let image = ContentItem::Image { source: png() };
    check_input(
        vec![message(
            Role::User,
            vec![
                text("hurry"),
                result("c1", vec![words("1"), image], true),
                result("c2", vec![words("2"), words("b")], true),
                result("c3", vec![], false),
            ],
        )],
        json!([
            {"type": "function_call_output", "call_id": "c1", "output": [
                {"type": "input_text", "text": "Error:"},
                {"type": "input_text", "text": "1"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
            ]},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: 2\nb"},
            {"type": "function_call_output", "call_id": "c3", "output": ""},
            {"role": "user", "content": "hurry"},
        ]),
    );
}

/// The API rejects other spellings of the types that it accepts. Regression test. The URL was sent unchanged.
#[test]
fn data_url_of_an_image_in_a_result_is_sent_as_the_api_spells_it() {
    let source = ImageSource::Url { url: "data:Image/JPG;base64,aGk=".into() };
    check_input(
        vec![message(Role::User, vec![result("c1", vec![ContentItem::Image { source }], false)])],
        json!([{"type": "function_call_output", "call_id": "c1", "output": [
            {"type": "input_image", "image_url": "data:image/jpeg;base64,aGk=", "detail": "auto"},
        ]}]),
    );
}

/// Resources that the API accepts must be sent, and all others must be described by text. An MCP server may return any
/// type of resource, including images of unusual types.
#[test]
fn resources_in_results_are_mapped_and_others_described() {
    let text = |text: &str| json!({"type": "input_text", "text": text});
    check_input(
        vec![message(Role::User, vec![result("c1", items_of_others(), false)])],
        json!([{"type": "function_call_output", "call_id": "c1", "output": [
            text("[audio, audio/wav]"),
            text("[resource file:///a]\nhi"),
            {"type": "input_image", "image_url": "data:image/jpeg;base64,aGk=", "detail": "auto"},
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="},
            text("[resource file:///a, application/zip]"),
            text("[image]"),
            text("[link to resource file:///a: a]"),
        ]}]),
    );
    let resource = EmbeddedResource::text("file:///a", "hi");
    check_input(
        vec![message(
            Role::User,
            vec![result("c1", vec![ContentItem::Resource { resource }], true)],
        )],
        json!([{"type": "function_call_output", "call_id": "c1", "output": "Error: [resource file:///a]\nhi"}]),
    );
}

#[test]
fn items_are_sent_back_unchanged() {
    let items = [
        reasoning("rs_1"),
        said(),
        reasoning("rs_2"),
        json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{ \"z\":1}", "status": "completed"}),
        json!({"type": "image_generation_call", "id": "ig_1", "result": "AAAA"}),
    ];
    let content = items.iter().map(own).collect();
    check_input(vec![message(Role::Assistant, content)], json!(items));
}

/// The result of a custom tool must be sent as an item of the type for custom tools. Functions have another item type
/// for results.
#[test]
fn custom_call_has_custom_result() {
    let custom = |id: &str| json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": id, "name": "sql", "input": "x"});
    let request = talk(vec![
        Message::user("hi"),
        message(Role::Assistant, vec![own(&custom("c1")), call("c2", json!({}))]),
        message(Role::User, vec![result("c2", vec![], false)]),
        // Regression test. If another message came before it, the result of a custom tool was sent as the result of a
        // function.
        message(Role::User, vec![result("c1", vec![words("1")], false)]),
    ]);
    let left_out = Dialect { left_out: &["include"], ..Dialect::openai() };
    let settings = Settings { dialect: &left_out, ..Settings::default() };
    assert_eq!(json_with(request.view(), settings).get("include"), None);
    let json = json_with(request.view(), Settings::default());
    assert_eq!(
        json["input"][4],
        json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "1"})
    );
    assert_eq!(json["input"][3]["type"], "function_call_output");
    assert_eq!(check_responses_request(&json), Ok(()));
}

/// A raw block in a user message must be sent unchanged, because the caller uses such a block to answer a call of
/// OpenAI's own tools. Regression test.
#[test]
fn raw_items_of_the_caller_are_sent_unchanged() {
    let output = json!({"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}});
    check_input(
        vec![message(Role::User, vec![text("look"), raw("openai", output.clone(), None)])],
        json!([output, {"role": "user", "content": "look"}]),
    );
}

/// Reasoning must be omitted if no item follows it, because OpenAI rejects such reasoning. Regression test. If a
/// response was truncated during its reasoning, every later request failed.
#[test]
fn reasoning_without_following_item_is_omitted() {
    let check = |content: &[Value], expected: &[Value]| {
        let content = content.iter().map(own).collect();
        let request = talk(vec![
            Message::user("hi"),
            message(Role::Assistant, content),
            Message::user("go on"),
        ]);
        let json = json_with(request.view(), Settings::default());
        let input = json["input"].as_array().unwrap();
        assert_eq!(&input[1..input.len() - 1], expected);
        assert_eq!(check_responses_request(&json), Ok(()));
    };
    check(&[reasoning("rs_1")], &[]);
    check(&[said(), reasoning("rs_1"), reasoning("rs_2")], &[said()]);
    let both = [reasoning("rs_1"), reasoning("rs_2"), said()];
    check(&both, &both);
    let empty = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let before_nothing = [reasoning("rs_1"), empty];
    check(&before_nothing, &before_nothing);
}

/// A reasoning item without its content must be omitted if OpenAI does not store responses, because OpenAI could not
/// find the content.
#[test]
fn reasoning_that_is_not_stored_is_omitted() {
    let mut bare = reasoning("rs_1");
    bare.as_object_mut().unwrap().shift_remove("encrypted_content");
    let request = |extra: Value| CompletionRequest {
        extra: Some(extra),
        ..talk(vec![message(Role::Assistant, vec![own(&bare), own(&said())])])
    };
    let input = |extra| json_with(request(extra).view(), Settings::default())["input"].take();
    assert_eq!(input(json!({"include": []})), json!([said()]));
    assert_eq!(input(json!({"store": true})), json!([bare, said()]));
    // Compatible servers send the text of the reasoning, and require it in the next request.
    let mut open = bare.clone();
    open["content"] = json!([{"type": "reasoning_text", "text": "hm"}]);
    let request = talk(vec![message(Role::Assistant, vec![own(&open), own(&said())])]);
    assert_eq!(json_with(request.view(), Settings::default())["input"], json!([open, said()]));
}

#[test]
fn blocks_of_other_providers_are_sent_as_portable_blocks() {
    let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() };
    check_input(
        vec![message(
            Role::Assistant,
            vec![
                thinking,
                ContentBlock::RedactedThinking { data: "x".into() },
                raw("anthropic", json!({"type": "server_tool_use"}), None),
                raw("anthropic", json!({"type": "text", "citations": [1]}), Some(text("cited"))),
                ContentBlock::Compaction { content: "so far".into() },
                text(""),
                raw("anthropic", json!({"type": "tool_use"}), Some(call("c1", json!({"z": 1})))),
                call("c2", ToolCall::invalid_json_input("{\"a\":")),
            ],
        )],
        json!([
            {"role": "assistant", "content": "cited"},
            {"role": "assistant", "content": "so far"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"z\":1}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{\"invalid_json\":\"{\\\"a\\\":\"}"},
        ]),
    );
    // The Responses API does not accept the JSON in raw blocks of Chat Completions, so their portable blocks are sent.
    let custom = json!({"id": "c", "type": "custom", "custom": {"name": "look", "input": "x"}});
    check_input(
        vec![message(
            Role::Assistant,
            vec![
                raw("openai", json!({"type": "message", "refusal": "No."}), Some(text("No."))),
                raw("openai", json!({"type": "message", "annotations": [1]}), None),
                raw("openai", custom, Some(call("c", json!("x")))),
            ],
        )],
        json!([
            {"role": "assistant", "content": "No."},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "\"x\""},
        ]),
    );
}

/// Invalid arguments of an earlier call must be sent back as a text with valid JSON. Servers parse the arguments, and
/// reject a conversation with invalid JSON.
#[test]
fn invalid_arguments_are_sent_back_as_json_text() {
    let call = |arguments: Value| json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": arguments, "status": "incomplete"});
    for (arguments, expected) in [
        (json!("{\"a\":"), "{\"invalid_json\":\"{\\\"a\\\":\"}"),
        (json!(""), "{}"),
        (json!(null), "{}"),
        (json!({"a": 1}), "{\"a\":1}"),
        (json!("{ \"a\": 1.0 }"), "{ \"a\": 1.0 }"),
        (json!("[1]"), "[1]"),
    ] {
        check_input(
            vec![message(Role::Assistant, vec![own(&call(arguments))])],
            json!([call(json!(expected))]),
        );
    }
    let mut bare = call(json!(""));
    bare.as_object_mut().unwrap().shift_remove("arguments");
    check_input(vec![message(Role::Assistant, vec![own(&bare)])], json!([call(json!("{}"))]));
    // The input of a custom tool is free text, so it is sent unchanged.
    let custom = json!({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "{x"});
    check_input(vec![message(Role::Assistant, vec![own(&custom)])], json!([custom]));
}

#[test]
fn call_with_invalid_name_is_renamed() {
    let name = "functions.look".to_owned();
    let call = ContentBlock::ToolUse { id: "c".into(), name, input: json!({}) };
    let json =
        json_with(talk(vec![message(Role::Assistant, vec![call])]).view(), Settings::default());
    assert_eq!(json["input"][0]["name"], "functions_look");
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
            stores in any::<bool>(),
        ) {
            let long = CompletionRequest {
                system: Some("be kind".into()),
                tools: vec![tool("look")],
                extra: stores.then(|| json!({"store": true, "metadata": {"user": "u"}})),
                ..talk(messages)
            };
            let messages = long.messages[..ends[cut.index(ends.len())]].to_vec();
            let short = CompletionRequest { messages, ..long.clone() };
            let bytes =
                |request: RequestRef<'_>| write(request, "m", Settings::default(), true).unwrap();
            let (short_bytes, long_bytes) = (bytes(short.view()), bytes(long.view()));
            let beginning = short_bytes.strip_suffix(b"]}").expect("input comes last");
            prop_assert!(long_bytes.starts_with(beginning));
            prop_assert!(matches!(long_bytes[beginning.len()], b',' | b']'));
            prop_assert_eq!(&bytes(long.clone().view()), &long_bytes);
            for body in [short_bytes, long_bytes] {
                let json = serde_json::from_slice(&body).unwrap();
                prop_assert_eq!(check_responses_request(&json), Ok(()));
            }
        }
    }
}

#[test]
fn strict_tools_and_vendor_fields_are_mapped() {
    let request =
        CompletionRequest { tools: vec![strict_tool()], ..talk(vec![Message::user("hi")]) };
    assert_eq!(
        json_with(request.view(), Settings::default())["tools"][0],
        json!({
            "type": "function", "name": "act", "description": "d", "strict": true, "defer_loading": true,
            "parameters": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false },
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
    // Other servers have other limits.
    let dialect = Dialect::new("http://localhost");
    let settings = Settings { dialect: &dialect, ..Settings::default() };
    assert!(write(image.view(), "m", settings, false).is_ok());
}

/// An image of a tool must not make every later request fail. Regression test.
#[test]
fn image_of_a_tool_that_the_api_rejects_becomes_text() {
    let sent = |url: &str| {
        let source = ImageSource::Url { url: url.into() };
        let item = ContentItem::Image { source };
        serde_json::to_value(Output { content: &[item], is_error: false }).unwrap()
    };
    assert_eq!(sent("data:image/bmp;base64,aGk="), "[image]");
    let image = sent("data:image/jpg;base64,aGk=");
    assert_eq!(image[0]["image_url"], "data:image/jpeg;base64,aGk=");
}
