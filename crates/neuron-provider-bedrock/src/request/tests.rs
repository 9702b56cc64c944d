//! Tests of requests. The server of `neuron-testing` must accept each request.

use neuron_model::{
    CacheTtl, CompletionRequest, ContextEdit, ContextManagement, ReasoningEffort, Role,
    SystemBlock, ToolChoice, ToolDefinition,
};
use neuron_testing::bedrock::{Route, check_request};

use super::*;

pub(crate) const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6";
pub(crate) const NOVA: &str = "amazon.nova-pro-v1:0";
pub(crate) const GPT: &str = "global.openai.gpt-6-sol";
pub(crate) const LLAMA: &str = "us.meta.llama4-scout-17b-instruct-v1:0";
pub(crate) const MISTRAL: &str = "mistral.mistral-large-2402-v1:0";

pub(crate) fn tool(name: &str) -> ToolDefinition {
    serde_json::from_value(json!({
        "name": name, "description": "d", "input_schema": {"type": "object"},
    }))
    .unwrap()
}

/// Writes a request, and checks that the server accepts it.
#[track_caller]
pub(crate) fn written(request: RequestRef<'_>, settings: Settings<'_>) -> Value {
    let model = Model::new(request.model, "");
    let bytes = write(request, model, settings).unwrap();
    assert_eq!(write(request, model, settings).unwrap(), bytes);
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let route = Route::parse(&format!("/{}", crate::model::path(model.id, "converse").unwrap()));
    if let Err(error) = check_request(&body, &route.unwrap()) {
        panic!("{}: {body}", error.message);
    }
    body
}

pub(crate) fn ask(model: &str) -> CompletionRequest {
    CompletionRequest {
        model: model.into(),
        messages: vec![Message::user("hi")],
        max_tokens: Some(64),
        ..Default::default()
    }
}

#[track_caller]
fn check(request: &CompletionRequest, key: &str, expected: Value) {
    let body = written(request.view(), Settings::default());
    assert_eq!(body.get(key).cloned().unwrap_or_default(), expected, "{}", request.model);
}

#[track_caller]
fn check_error(request: &CompletionRequest, text: &str) {
    let model = Model::new(&request.model, "");
    let error = write(request.view(), model, Settings::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("invalid request: {text}"));
}

#[test]
fn each_setting_has_its_field() {
    let mut request = ask(CLAUDE);
    request.temperature = Some(0.7);
    request.stop_sequences = vec!["HALT".into()];
    request.system = Some("be kind".into());
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "the answer".into(),
        schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        strict: true,
    });
    let guardrail = Guardrail { id: "g1".into(), version: "DRAFT".into(), trace: "enabled" };
    let settings = Settings { max_tokens: Some(7), guardrail: Some(&guardrail) };
    assert_eq!(
        written(request.view(), settings),
        json!({
            "inferenceConfig": {"maxTokens": 64, "temperature": 0.7, "stopSequences": ["HALT"]},
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
            "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {
                "schema": "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
                "name": "the_answer",
            }}}},
            "guardrailConfig": {
                "guardrailIdentifier": "g1", "guardrailVersion": "DRAFT", "trace": "enabled",
            },
            "system": [{"text": "be kind"}],
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        })
    );
}

#[test]
fn maximum_of_tokens_has_a_default() {
    let tokens = |model: &str, change: &dyn Fn(&mut CompletionRequest)| {
        let mut request = ask(model);
        request.max_tokens = None;
        change(&mut request);
        written(request.view(), Settings::default())["inferenceConfig"]["maxTokens"].clone()
    };
    let same = |_: &mut CompletionRequest| {};
    assert_eq!(tokens(CLAUDE, &same), json!(8_192));
    assert_eq!(tokens("anthropic.claude-3-haiku-20240307-v1:0", &same), json!(4_000));
    assert_eq!(tokens(LLAMA, &same), json!(2_048));
    assert_eq!(tokens("unknown", &same), json!(4_000));
    let thinks = |request: &mut CompletionRequest| {
        request.thinking = Some(ThinkingConfig::Enabled { budget_tokens: 2_000 });
    };
    assert_eq!(tokens(CLAUDE, &thinks), json!(10_192));
    let high = |request: &mut CompletionRequest| {
        request.reasoning_effort = Some(ReasoningEffort::High);
    };
    assert_eq!(tokens("global.amazon.nova-2-lite-v1:0", &high), json!(null));
    let request = CompletionRequest { max_tokens: None, ..ask(CLAUDE) };
    let settings = Settings { max_tokens: Some(7), guardrail: None };
    assert_eq!(written(request.view(), settings)["inferenceConfig"]["maxTokens"], 7);
}

#[test]
fn long_response_needs_a_stream() {
    let model = Model::new(CLAUDE, "");
    for (max_tokens, extra, expected) in [
        (Some(16_384), json!({}), false),
        (Some(16_385), json!({}), true),
        (None, json!({}), false),
        (None, json!({"inferenceConfig": {"maxTokens": 20_000}}), true),
        (Some(20_000), json!({"inferenceConfig": {"maxTokens": 1}}), false),
    ] {
        let request = CompletionRequest { max_tokens, extra: Some(extra), ..ask(CLAUDE) };
        assert_eq!(needs_stream(request.view(), model, Settings::default()), expected);
    }
}

#[test]
fn highest_effort_of_nova_has_no_maximum_and_no_sampling() {
    let nova = "global.amazon.nova-2-lite-v1:0";
    let request = || CompletionRequest {
        max_tokens: None,
        reasoning_effort: Some(ReasoningEffort::High),
        ..ask(nova)
    };
    let settings = Settings { max_tokens: Some(7), guardrail: None };
    assert_eq!(written(request().view(), settings).get("inferenceConfig"), None);
    for (request, name) in [
        (CompletionRequest { max_tokens: Some(7), ..request() }, "max_tokens"),
        (CompletionRequest { temperature: Some(0.5), ..request() }, "temperature"),
        (CompletionRequest { top_p: Some(0.5), ..request() }, "top_p"),
    ] {
        let text = "with ReasoningEffort::High: leave it out, or lower the effort";
        check_error(&request, &format!("`{nova}` accepts no {name} {text}"));
        let lower =
            CompletionRequest { reasoning_effort: Some(ReasoningEffort::Medium), ..request };
        assert!(written(lower.view(), settings)["inferenceConfig"].is_object());
    }
}

#[test]
fn prompt_has_its_own_settings() {
    let prompt = "arn:aws:bedrock:us-east-1:123456789012:prompt/ABCDEFGHIJ:1";
    let request = || CompletionRequest { max_tokens: None, ..with_calls(prompt) };
    let mut with_system = request();
    with_system.messages.insert(0, Message::system("be kind"));
    with_system.extra = Some(json!({"promptVariables": {"name": {"text": "Ada"}}}));
    for base in ["", CLAUDE] {
        let model = Model::new(prompt, base);
        let settings = Settings { max_tokens: Some(7), guardrail: None };
        let body = write(with_system.view(), model, settings).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let route = format!("/{}", crate::model::path(prompt, "converse").unwrap());
        check_request(&body, &Route::parse(&route).unwrap()).unwrap();
        let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["promptVariables", "messages"]);
        assert_eq!(body["messages"][0]["content"], json!([{"text": "be kind"}, {"text": "hi"}]));
    }
    for (request, name) in [
        (CompletionRequest { max_tokens: Some(7), ..request() }, "max_tokens"),
        (CompletionRequest { stop_sequences: vec!["HALT".into()], ..request() }, "stop_sequences"),
        (CompletionRequest { system: Some("be kind".into()), ..request() }, "system"),
        (CompletionRequest { tools: vec![tool("a")], ..request() }, "tools"),
        (
            CompletionRequest { reasoning_effort: Some(ReasoningEffort::Low), ..request() },
            "reasoning_effort",
        ),
    ] {
        let text = "itself: leave it out of the request";
        check_error(&request, &format!("`{prompt}` is a prompt, which defines {name} {text}"));
    }
}

#[test]
fn response_without_a_maximum_needs_a_stream() {
    let model = Model::new("global.amazon.nova-2-lite-v1:0", "");
    let effort = |effort| CompletionRequest {
        max_tokens: None,
        reasoning_effort: Some(effort),
        ..ask(model.id)
    };
    let needs =
        |request: &CompletionRequest| needs_stream(request.view(), model, Settings::default());
    assert!(needs(&effort(ReasoningEffort::High)));
    assert!(!needs(&effort(ReasoningEffort::Low)));
}

#[test]
fn system_messages_at_the_beginning_join_the_system_prompt() {
    let mut request = ask(CLAUDE);
    request.system = Some(SystemPrompt::Blocks(vec![
        SystemBlock { text: "a".into(), cache_control: Some(CacheControl { ttl: None }) },
        SystemBlock { text: " ".into(), cache_control: Some(CacheControl { ttl: None }) },
    ]));
    request.messages.insert(0, Message::system("b"));
    request.messages.push(Message::system("c"));
    let body = written(request.view(), Settings::default());
    assert_eq!(
        body["system"],
        json!([{"text": "a"}, {"cachePoint": {"type": "default"}}, {"text": "b"}])
    );
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": [{"text": "hi"}, {"text": "c"}]}])
    );
    check(&CompletionRequest { system: Some("\n".into()), ..ask(CLAUDE) }, "system", json!(null));
}

#[test]
fn cache_points_follow_the_order_of_the_fields() {
    let hour = Some(CacheControl { ttl: Some(CacheTtl::OneHour) });
    let five = Some(CacheControl { ttl: Some(CacheTtl::FiveMinutes) });
    let mut request = ask(CLAUDE);
    request.tools = vec![tool("a"), ToolDefinition { cache_control: hour, ..tool("b") }];
    request.system = Some(SystemPrompt::Blocks(vec![
        SystemBlock { text: "x".into(), cache_control: hour },
        SystemBlock { text: "y".into(), cache_control: five },
    ]));
    let view = RequestRef { cache: hour, ..request.view() };
    let body = written(view, Settings::default());
    let (point, long) = (
        json!({"cachePoint": {"type": "default"}}),
        json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
    );
    assert_eq!(body["toolConfig"]["tools"][2], long);
    assert_eq!(body["system"], json!([{"text": "x"}, long, {"text": "y"}, point]));
    assert_eq!(body["messages"][0]["content"], json!([{"text": "hi"}, point]));
    for model in [LLAMA, MISTRAL, "openai.gpt-oss-20b-1:0", "unknown"] {
        let view = RequestRef { model, ..view };
        assert!(!written(view, Settings::default()).to_string().contains("cachePoint"), "{model}");
    }
    let body = written(RequestRef { model: NOVA, ..view }, Settings::default());
    assert_eq!(body.to_string().matches("cachePoint").count(), 3);
    assert!(!body.to_string().contains("ttl"));
}

#[test]
fn cache_points_of_the_caller_are_counted() {
    let point = json!({"cachePoint": {"type": "default"}});
    let own = || ContentBlock::Raw {
        provider: "aws.bedrock".into(),
        json: point.clone(),
        portable: None,
    };
    let text = || ContentBlock::Text("a".into());
    let mut request = ask(CLAUDE);
    request.messages[0].content = vec![text(), own(), text(), own(), text()];
    let hour = Some(CacheControl { ttl: Some(CacheTtl::OneHour) });
    request.tools = vec![ToolDefinition { cache_control: hour, ..tool("b") }];
    request.extra = Some(json!({ "tools": [point] }));
    let view = RequestRef { cache: hour, ..request.view() };
    let body = written(view, Settings::default()).to_string();
    assert_eq!(body.matches("cachePoint").count(), 4);
    assert_eq!(body.matches("1h").count(), 1);
}

#[test]
fn tool_choice_depends_on_the_family() {
    let request = |model: &str, choice: ToolChoice| CompletionRequest {
        tools: vec![tool("fs.read")],
        tool_choice: Some(choice),
        ..ask(model)
    };
    let specific = || ToolChoice::Specific { name: "fs.read".into() };
    for (model, choice, expected) in [
        (CLAUDE, ToolChoice::Auto, json!({"auto": {}})),
        (CLAUDE, ToolChoice::Required, json!({"any": {}})),
        (CLAUDE, specific(), json!({"tool": {"name": "fs_read"}})),
        (NOVA, ToolChoice::Required, json!({"any": {}})),
        (GPT, ToolChoice::Auto, json!({"auto": {}})),
        (GPT, ToolChoice::Required, json!({"any": {}})),
        (GPT, specific(), json!({"tool": {"name": "fs_read"}})),
        (MISTRAL, ToolChoice::Required, json!({"any": {}})),
        (MISTRAL, ToolChoice::Auto, json!(null)),
        (LLAMA, ToolChoice::Auto, json!(null)),
        ("unknown", specific(), json!({"tool": {"name": "fs_read"}})),
    ] {
        let body = written(request(model, choice).view(), Settings::default());
        let config = &body["toolConfig"];
        assert_eq!(config["tools"][0]["toolSpec"]["name"], "fs_read");
        assert_eq!(config.get("toolChoice").cloned().unwrap_or_default(), expected, "{model}");
    }
    check_error(
        &request(LLAMA, ToolChoice::Required),
        &format!(
            "`{LLAMA}` cannot be forced to call a tool: use ToolChoice::Auto and ask for it in the prompt"
        ),
    );
    check_error(
        &request(MISTRAL, specific()),
        &format!(
            "`{MISTRAL}` cannot be forced to call one of its tools: use ToolChoice::Auto and give it no other tool"
        ),
    );
    let without = CompletionRequest { tool_choice: Some(ToolChoice::Required), ..ask(CLAUDE) };
    let text = "a forced tool call needs tools: add them, or use ToolChoice::Auto";
    check_error(&without, text);
    let find = ToolChoice::Specific { name: "fs/find".into() };
    check_error(
        &request(CLAUDE, find),
        "the tool choice names `fs/find`, and the request has no such tool: add it, or choose another tool",
    );
}

#[test]
fn stop_sequences_depend_on_the_family() {
    let stop = |model: &str, sequences: &[&str]| CompletionRequest {
        stop_sequences: sequences.iter().map(|&sequence| sequence.to_owned()).collect(),
        ..ask(model)
    };
    check_error(
        &stop(CLAUDE, &["\n"]),
        "Bedrock accepts no stop sequence of white space alone: leave it out, or add other characters",
    );
    let body = written(stop(NOVA, &["\n"]).view(), Settings::default());
    assert_eq!(body["inferenceConfig"]["stopSequences"], json!(["\n"]));
    check_error(&stop(NOVA, &[""]), "a stop sequence is empty: leave it out");
    check_error(
        &stop(NOVA, &["a"; 2501]),
        "Bedrock accepts at most 2500 stop sequences, and the request has 2501: leave some out",
    );
}

fn with_calls(model: &str) -> CompletionRequest {
    let call = ContentBlock::ToolUse { id: "a".into(), name: "old.tool".into(), input: json!({}) };
    let result = ContentBlock::ToolResult {
        tool_use_id: "a".into(),
        content: vec![neuron_model::ContentItem::Text("done".into())],
        is_error: false,
    };
    let mut request = ask(model);
    request.messages.push(Message { role: Role::Assistant, content: vec![call] });
    request.messages.push(Message { role: Role::User, content: vec![result] });
    request
}

#[test]
fn conversation_with_calls_has_tools() {
    let old = json!({"tools": [{"toolSpec": {
        "name": "old_tool",
        "description": "A tool of an earlier turn, which is no longer available.",
        "inputSchema": {"json": {"type": "object"}},
    }}]});
    let forbidden = json!({"tool_choice": {"type": "none"}});
    for (model, fields) in [(CLAUDE, forbidden.clone()), (NOVA, json!(null))] {
        check(&with_calls(model), "toolConfig", old.clone());
        check(&with_calls(model), "additionalModelRequestFields", fields.clone());
        let mut request = with_calls(model);
        request.tools = vec![tool("look")];
        request.tool_choice = Some(ToolChoice::None);
        let body = written(request.view(), Settings::default());
        assert_eq!(body["toolConfig"]["tools"].as_array().unwrap().len(), 1);
        assert_eq!(body["toolConfig"].get("toolChoice"), None);
        assert_eq!(body.get("additionalModelRequestFields").cloned().unwrap_or_default(), fields);
        request.tool_choice = None;
        check(&request, "additionalModelRequestFields", json!(null));
    }
    let request = CompletionRequest {
        tools: vec![tool("look")],
        tool_choice: Some(ToolChoice::None),
        ..ask(CLAUDE)
    };
    check(&request, "toolConfig", json!(null));
    check(&request, "additionalModelRequestFields", json!(null));
}

#[test]
fn tools_are_written_as_the_api_accepts_them() {
    let mut plain = tool("a");
    plain.description = " ".into();
    plain.input_schema = json!({"properties": {}});
    let any = ToolDefinition { input_schema: json!(true), ..tool("b") };
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let strict = ToolDefinition { input_schema: schema, ..tool("c") }.strict();
    let strict = strict.with_vendor_field("aws.bedrock", "new", 1);
    let request = CompletionRequest { tools: vec![plain, any, strict], ..ask(CLAUDE) };
    let model = Model::new(CLAUDE, "");
    let body = write(request.view(), model, Settings::default()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let specs: Vec<_> = body["toolConfig"]["tools"].as_array().unwrap().clone();
    assert_eq!(specs[0]["toolSpec"]["description"], "a");
    let schema = json!({"json": {"properties": {}, "type": "object"}});
    assert_eq!(specs[0]["toolSpec"]["inputSchema"], schema);
    assert_eq!(
        specs[1]["toolSpec"]["inputSchema"],
        json!({"json": {"type": "object", "properties": {}}})
    );
    assert_eq!(
        (&specs[2]["toolSpec"]["strict"], &specs[2]["toolSpec"]["new"]),
        (&json!(true), &json!(1))
    );
    let schema = &specs[2]["toolSpec"]["inputSchema"]["json"];
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn extra_is_merged() {
    let mut request = ask(CLAUDE);
    request.tools = vec![tool("look")];
    request.reasoning_effort = Some(ReasoningEffort::Low);
    request.extra = Some(json!({
        "tools": [{"systemTool": {"name": "nova_grounding"}}],
        "additionalModelRequestFields": {"top_k": 5},
        "inferenceConfig": {"topP": 0.5},
        "requestMetadata": {"team": "x"},
    }));
    let model = Model::new(CLAUDE, "");
    let body = write(request.view(), model, Settings::default()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let tools = body["toolConfig"]["tools"].as_array().unwrap();
    assert_eq!(tools[1], json!({"systemTool": {"name": "nova_grounding"}}));
    let fields = json!({"output_config": {"effort": "low"}, "top_k": 5});
    assert_eq!(body["additionalModelRequestFields"], fields);
    assert_eq!(body["inferenceConfig"], json!({"maxTokens": 64, "topP": 0.5}));
    let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "inferenceConfig",
            "additionalModelRequestFields",
            "toolConfig",
            "requestMetadata",
            "messages"
        ]
    );
    for (extra, text) in [
        (json!([]), "`extra` must be a JSON object: its fields are merged into the request"),
        (json!({"stream": true}), "`extra` cannot set `stream`: call complete or complete_stream"),
    ] {
        check_error(&CompletionRequest { extra: Some(extra), ..ask(CLAUDE) }, text);
    }
}

#[test]
fn inexpressible_setting_is_an_error() {
    let edits = vec![ContextEdit::Compact { strategy: "c".into() }];
    check_error(
        &CompletionRequest { context_management: Some(ContextManagement { edits }), ..ask(CLAUDE) },
        "Bedrock does not edit conversations: use a ContextStrategy, which runs on the client",
    );
    check_error(
        &CompletionRequest { response_format: Some(ResponseFormat::JsonObject), ..ask(CLAUDE) },
        "Bedrock has no free JSON mode: use ResponseFormat::JsonSchema",
    );
}

#[test]
fn own_tools_of_extra_replace_placeholders() {
    let mut request = with_calls(CLAUDE);
    let own = json!([{"toolSpec": {
        "name": "old_tool", "description": "d", "inputSchema": {"json": {"type": "object"}},
    }}]);
    request.extra = Some(json!({"toolConfig": {"tools": own}}));
    check(&request, "toolConfig", json!({ "tools": own }));
    check(&request, "additionalModelRequestFields", json!(null));
}
