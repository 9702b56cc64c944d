//! Tests of `support::checker`, which compares spans with OpenTelemetry's conventions. Each test span is valid or has
//! one defect.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use super::{attribute, text};
use crate::support::checker::Checker;
use crate::support::conventions::Version;

/// Sets an attribute of a span.
fn set(span: &mut Span, name: &str, value: Value) {
    unset(span, name);
    span.attributes.push(attribute(name, value));
}

fn unset(span: &mut Span, name: &str) {
    span.attributes.retain(|attribute| attribute.key != name);
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    let values = values.into_iter().map(|value| AnyValue { value: Some(value) }).collect();
    Value::ArrayValue(ArrayValue { values })
}

fn span(name: &str, kind: SpanKind, attributes: &[(&str, Value)]) -> Span {
    let mut span = Span { name: name.to_owned(), kind: kind.into(), ..Span::default() };
    for (name, value) in attributes {
        set(&mut span, name, value.clone());
    }
    // The checker must ignore attributes of the layer and of neuron.
    set(&mut span, "code.line.number", Value::IntValue(7));
    set(&mut span, "busy_ns", Value::IntValue(9));
    set(&mut span, "neuron.turn", Value::IntValue(1));
    span
}

fn chat() -> Span {
    let attributes = [
        ("gen_ai.operation.name", text("chat")),
        ("gen_ai.provider.name", text("anthropic")),
        ("gen_ai.request.model", text("claude")),
        ("gen_ai.request.max_tokens", Value::IntValue(100)),
        ("gen_ai.request.temperature", Value::DoubleValue(0.5)),
        ("gen_ai.request.stream", Value::BoolValue(true)),
        ("gen_ai.response.time_to_first_chunk", Value::DoubleValue(0.1)),
        ("gen_ai.response.finish_reasons", list([text("stop")])),
        ("gen_ai.usage.input_tokens", Value::IntValue(12)),
        ("gen_ai.usage.cache_read.input_tokens", Value::IntValue(10)),
        ("gen_ai.usage.output_tokens", Value::IntValue(3)),
        ("gen_ai.conversation.id", text("conversation")),
        ("server.address", text("127.0.0.1")),
        ("server.port", Value::IntValue(443)),
    ];
    span("chat claude", SpanKind::Client, &attributes)
}

fn agent(version: Version) -> Span {
    let mut span = span(
        "invoke_agent planner",
        SpanKind::Internal,
        &[("gen_ai.operation.name", text("invoke_agent")), ("gen_ai.agent.name", text("planner"))],
    );
    if version == Version::V1_41 {
        set(&mut span, "gen_ai.provider.name", text("anthropic"));
    }
    span
}

fn tool() -> Span {
    let attributes = [
        ("gen_ai.operation.name", text("execute_tool")),
        ("gen_ai.tool.name", text("add")),
        ("gen_ai.tool.call.id", text("call_1")),
    ];
    span("execute_tool add", SpanKind::Internal, &attributes)
}

fn embeddings() -> Span {
    let attributes = [
        ("gen_ai.operation.name", text("embeddings")),
        ("gen_ai.provider.name", text("openai")),
        ("gen_ai.request.model", text("small")),
    ];
    span("embeddings small", SpanKind::Client, &attributes)
}

fn mcp() -> Span {
    let attributes = [
        ("mcp.method.name", text("tools/call")),
        ("gen_ai.operation.name", text("execute_tool")),
        ("gen_ai.tool.name", text("add")),
        ("jsonrpc.request.id", text("1")),
        ("network.transport", text("pipe")),
    ];
    span("tools/call add", SpanKind::Client, &attributes)
}

fn failed(mut span: Span) -> Span {
    span.status = Some(Status { message: "no".to_owned(), code: StatusCode::Error.into() });
    set(&mut span, "error.type", text("RateLimit"));
    span
}

/// Changes a span with `spoil` and checks it against a version of the conventions. Asserts that the checker reports
/// exactly the problems `expected`.
#[track_caller]
fn check_in(version: Version, mut span: Span, spoil: impl FnOnce(&mut Span), expected: &[&str]) {
    spoil(&mut span);
    let expected: Vec<String> =
        expected.iter().map(|problem| format!("span `{}`: {problem}", span.name)).collect();
    assert_eq!(Checker::new(version).spans(&[span]), expected);
}

/// Changes a span with `spoil` and checks it against version 1.41 of the conventions. Asserts that the checker reports
/// exactly the problems `expected`.
#[track_caller]
fn check(span: Span, spoil: impl FnOnce(&mut Span), expected: &[&str]) {
    check_in(Version::V1_41, span, spoil, expected);
}

#[test]
fn valid_spans_pass() {
    for version in Version::ALL {
        let mut server = mcp();
        server.kind = SpanKind::Server.into();
        let mut list = mcp();
        list.name = "tools/list".to_owned();
        set(&mut list, "mcp.method.name", text("tools/list"));
        unset(&mut list, "gen_ai.operation.name");
        unset(&mut list, "gen_ai.tool.name");
        let mut nameless = agent(version);
        nameless.name = "invoke_agent".to_owned();
        unset(&mut nameless, "gen_ai.agent.name");
        let own = span("handle", SpanKind::Server, &[("http.route", text("/"))]);
        let compaction = span("neuron.context.compaction", SpanKind::Internal, &[]);
        let spans = [
            chat(),
            agent(version),
            nameless,
            tool(),
            embeddings(),
            mcp(),
            server,
            enriched(),
            list,
            failed(chat()),
            failed(tool()),
            own,
            compaction,
        ];
        assert_eq!(Checker::new(version).spans(&spans), Vec::<String>::new(), "{version:?}");
    }
}

#[test]
fn wrong_span_name_or_kind_is_reported() {
    check(
        chat(),
        |span| span.name = "gen_ai.chat".to_owned(),
        &["its name is `gen_ai.chat` where `chat claude` is due"],
    );
    check(
        agent(Version::V1_41),
        |span| span.name = "invoke_agent".to_owned(),
        &["its name is `invoke_agent` where `invoke_agent planner` is due"],
    );
    check(
        mcp(),
        |span| span.name = "tools/call".to_owned(),
        &["its name is `tools/call` where `tools/call add` is due"],
    );
    check(
        chat(),
        |span| span.kind = SpanKind::Internal.into(),
        &["its kind is internal where client is due"],
    );
    check(
        tool(),
        |span| span.kind = SpanKind::Client.into(),
        &["its kind is client where internal is due"],
    );
}

/// Returns the span of an MCP server that rejected a call, because the server does not have the called tool.
fn refused() -> Span {
    let mut span = failed(mcp());
    span.kind = SpanKind::Server.into();
    span.name = "tools/call".to_owned();
    set(&mut span, "error.type", text("-32602"));
    set(&mut span, "rpc.response.status_code", text("-32602"));
    span
}

#[test]
fn only_server_span_of_rejected_name_may_omit_it() {
    check(refused(), |_| {}, &[]);
    let due = "its name is `tools/call` where `tools/call add` is due";
    check(refused(), |span| span.kind = SpanKind::Client.into(), &[due]);
    check(refused(), |span| set(span, "rpc.response.status_code", text("-32603")), &[due]);
    check(refused(), |span| unset(span, "rpc.response.status_code"), &[due]);
    check(
        refused(),
        |span| span.name = "tools/call other".to_owned(),
        &["its name is `tools/call other` where `tools/call add` is due"],
    );
}

/// Returns the span of a tool call that also has the attributes of an MCP request.
fn enriched() -> Span {
    let mut span = tool();
    for name in ["mcp.method.name", "jsonrpc.request.id", "network.transport"] {
        let value = mcp().attributes.into_iter().find(|attribute| attribute.key == name);
        span.attributes.extend(value);
    }
    span
}

#[test]
fn tool_call_may_have_only_mcp_client_attributes_in_addition() {
    check(
        enriched(),
        |span| {
            set(span, "mcp.protocol.version", text("2025-11-25"));
            set(span, "mcp.session.id", text("1"));
            set(span, "network.protocol.name", text("http"));
            set(span, "server.address", text("127.0.0.1"));
            set(span, "server.port", Value::IntValue(80));
        },
        &[],
    );
    check(
        enriched(),
        |span| set(span, "client.address", text("127.0.0.1")),
        &["`client.address` is not in the definition"],
    );
    check(
        enriched(),
        |span| set(span, "gen_ai.request.model", text("claude")),
        &["`gen_ai.request.model` is not in the definition"],
    );
    check(
        enriched(),
        |span| set(span, "mcp.tool.name", text("add")),
        &["`mcp.tool.name` is no attribute of the conventions"],
    );
    check(
        enriched(),
        |span| set(span, "jsonrpc.request.id", Value::IntValue(1)),
        &["`jsonrpc.request.id` is int where string is due"],
    );
    check(
        enriched(),
        |span| set(span, "server.address", text("127.0.0.1")),
        &["`server.port` is missing beside `server.address`"],
    );
    check(
        enriched(),
        |span| set(span, "network.transport", text("http")),
        &["`network.transport` has no value \"http\""],
    );
    check(
        enriched(),
        |span| set(span, "mcp.method.name", text("tools/list")),
        &["`gen_ai.operation.name` belongs to `tools/call`, and only there"],
    );
    check(
        enriched(),
        |span| span.name = "tools/call add".to_owned(),
        &["its name is `tools/call add` where `execute_tool add` is due"],
    );
    // A span without a method is not an MCP request, and must not have the attributes of a request.
    check(
        enriched(),
        |span| unset(span, "mcp.method.name"),
        &[
            "`jsonrpc.request.id` is not in the definition",
            "`network.transport` is not in the definition",
        ],
    );
}

#[test]
fn span_attribute_outside_definition_is_reported() {
    check(
        chat(),
        |span| set(span, "gen_ai.loop.turn", Value::IntValue(1)),
        &["`gen_ai.loop.turn` is no attribute of the conventions"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.system", text("anthropic")),
        &["`gen_ai.system` is no attribute of the conventions"],
    );
    check(
        chat(),
        |span| set(span, "my.own", text("x")),
        &["`my.own` is no attribute of the conventions"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.tool.name", text("add")),
        &["`gen_ai.tool.name` is not in the definition"],
    );
    check(
        tool(),
        |span| set(span, "mcp.session.id", text("1")),
        &["`mcp.session.id` is not in the definition"],
    );
    check(
        chat(),
        |span| unset(span, "gen_ai.provider.name"),
        &["`gen_ai.provider.name` is missing"],
    );
    check(tool(), |span| unset(span, "gen_ai.tool.name"), &["`gen_ai.tool.name` is missing"]);
    check(
        tool(),
        |span| span.attributes.push(attribute("gen_ai.tool.name", text("add"))),
        &["`gen_ai.tool.name` is there twice"],
    );
    check(
        span("execute_tool add", SpanKind::Internal, &[("gen_ai.tool.name", text("add"))]),
        |_| {},
        &["its operation is not recorded"],
    );
}

#[test]
fn vendor_conventions_extend_general_ones() {
    let openai = |span: &mut Span| {
        set(span, "gen_ai.provider.name", text("openai"));
        set(span, "openai.api.type", text("responses"));
    };
    check(chat(), openai, &[]);
    check(
        chat(),
        |span| {
            openai(span);
            unset(span, "gen_ai.request.model");
            span.name = "chat".to_owned();
        },
        &["`gen_ai.request.model` is missing"],
    );
    check(
        chat(),
        |span| set(span, "openai.api.type", text("responses")),
        &["`openai.api.type` is not in the definition"],
    );
}

#[test]
fn value_of_wrong_type_is_reported() {
    check(
        chat(),
        |span| set(span, "gen_ai.response.finish_reasons", text("[\"stop\"]")),
        &["`gen_ai.response.finish_reasons` is string where string[] is due"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.response.finish_reasons", list([Value::IntValue(1)])),
        &["`gen_ai.response.finish_reasons` is a list where string[] is due"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.request.max_tokens", Value::DoubleValue(100.0)),
        &["`gen_ai.request.max_tokens` is double where int is due"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.request.temperature", Value::IntValue(1)),
        &["`gen_ai.request.temperature` is int where double is due"],
    );
    check(
        chat(),
        |span| set(span, "server.port", text("443")),
        &["`server.port` is string where int is due"],
    );
    check(
        chat(),
        |span| {
            span.attributes
                .push(KeyValue { key: "gen_ai.response.id".to_owned(), ..KeyValue::default() })
        },
        &["`gen_ai.response.id` has no value"],
    );
    let checker = Checker::with_content(Version::V1_41);
    let mut call = tool();
    set(&mut call, "gen_ai.tool.call.arguments", text("{\"a\":1}"));
    assert_eq!(checker.spans(&[call.clone()]), Vec::<String>::new());
    set(&mut call, "gen_ai.tool.call.arguments", text("{a: 1"));
    assert_eq!(
        checker.spans(&[call]),
        ["span `execute_tool add`: `gen_ai.tool.call.arguments` is string where any is due"],
    );
}

#[test]
fn unlisted_value_is_reported() {
    check(
        chat(),
        |span| set(span, "gen_ai.output.type", text("yaml")),
        &["`gen_ai.output.type` has no value \"yaml\""],
    );
    check(chat(), |span| set(span, "gen_ai.provider.name", text("ollama")), &[]);
    check(
        chat(),
        |span| set(span, "gen_ai.conversation.id", text("")),
        &["`gen_ai.conversation.id` is empty"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.operation.name", text("talk")),
        &["its operation is not recorded"],
    );
}

#[test]
fn content_without_opt_in_is_reported() {
    let with_content = |span: &mut Span| set(span, "gen_ai.input.messages", text("[]"));
    check(chat(), with_content, &["`gen_ai.input.messages` is there without being opted in to"]);
    let mut call = chat();
    with_content(&mut call);
    assert_eq!(Checker::with_content(Version::V1_41).spans(&[call]), Vec::<String>::new());
}

#[test]
fn content_that_violates_schema_is_reported() {
    let recorded = |name: &str, content: &str| {
        let mut call = chat();
        set(&mut call, name, text(content));
        Checker::with_content(Version::V1_41).spans(&[call])
    };
    let none = Vec::<String>::new();
    let messages = r#"[{"role":"user","parts":[{"type":"text","content":"Hi"},{"type":"own"}]}]"#;
    assert_eq!(recorded("gen_ai.input.messages", messages), none);
    assert_eq!(recorded("gen_ai.tool.definitions", r#"[{"type":"function","name":"add"}]"#), none);
    for (name, wrong) in [
        ("gen_ai.input.messages", r#"{"role":"user"}"#),
        ("gen_ai.input.messages", r#"[{"role":"person","parts":[]}]"#),
        ("gen_ai.input.messages", r#"[{"role":"user","content":"Hi"}]"#),
        ("gen_ai.input.messages", r#"[{"role":"user","parts":[{"type":"text"}]}]"#),
        ("gen_ai.output.messages", r#"[{"role":"tool","parts":[{"type":"tool_call_response"}]}]"#),
        ("gen_ai.system_instructions", r#"["You plan."]"#),
        ("gen_ai.tool.definitions", r#"[{"name":"add"}]"#),
    ] {
        let expected =
            format!("span `chat claude`: `{name}` has not the form of its schema: {wrong}");
        assert_eq!(recorded(name, wrong), [expected]);
    }
}

#[test]
fn violated_condition_is_reported() {
    check(
        chat(),
        |span| {
            set(span, "gen_ai.request.stream", Value::BoolValue(false));
            unset(span, "gen_ai.response.time_to_first_chunk");
        },
        &["`gen_ai.request.stream` is false: it is recorded only for streams"],
    );
    check(
        chat(),
        |span| unset(span, "gen_ai.request.stream"),
        &["`gen_ai.response.time_to_first_chunk` of a call that does not stream"],
    );
    check(
        chat(),
        |span| unset(span, "server.port"),
        &["`server.port` is missing beside `server.address`"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.request.choice.count", Value::IntValue(1)),
        &["`gen_ai.request.choice.count` is 1, which is not recorded"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.response.finish_reasons", list([])),
        &["`gen_ai.response.finish_reasons` is empty"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.usage.input_tokens", Value::IntValue(2)),
        &["10 cached tokens are not in `gen_ai.usage.input_tokens`"],
    );
    check(
        chat(),
        |span| set(span, "gen_ai.usage.reasoning.output_tokens", Value::IntValue(4)),
        &["4 reasoning tokens are not in `gen_ai.usage.output_tokens`"],
    );
    check_in(
        Version::Latest,
        chat(),
        |span| set(span, "gen_ai.conversation.compacted", Value::BoolValue(false)),
        &["`gen_ai.conversation.compacted` is false: it is recorded only if it is true"],
    );
    check(
        mcp(),
        |span| unset(span, "gen_ai.operation.name"),
        &["`gen_ai.operation.name` belongs to `tools/call`, and only there"],
    );
    check(
        mcp(),
        |span| {
            span.name = "tools/list add".to_owned();
            set(span, "mcp.method.name", text("tools/list"));
        },
        &["`gen_ai.operation.name` belongs to `tools/call`, and only there"],
    );
}

#[test]
fn error_type_without_error_status_is_reported() {
    check(
        failed(tool()),
        |span| unset(span, "error.type"),
        &["`error.type` is missing beside ERROR"],
    );
    check(failed(tool()), |span| span.status = None, &["`error.type` without ERROR"]);
    check(
        tool(),
        |span| span.status = Some(Status { code: StatusCode::Ok.into(), ..Status::default() }),
        &["its status is OK, which is an application's to say"],
    );
    check(
        span("neuron.context.compaction", SpanKind::Internal, &[]),
        |span| set(span, "error.type", text("Cancelled")),
        &["`error.type` without ERROR"],
    );
    check(tool(), |span| span.start_time_unix_nano = 5, &["it ends before it begins"]);
    check(
        span("neuron.context.compaction", SpanKind::Internal, &[]),
        |span| set(span, "otel.status_code", text("ERROR")),
        &["`otel.status_code` is a field of the layer's, not an attribute"],
    );
}

#[test]
fn latest_conventions_differ_from_released_ones() {
    let cached = |name: &'static str| {
        move |span: &mut Span| {
            unset(span, "gen_ai.usage.cache_read.input_tokens");
            set(span, name, Value::IntValue(2));
        }
    };
    let (old, new) =
        ("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens");
    check(chat(), cached(old), &[]);
    check(chat(), cached(new), &[&format!("`{new}` is no attribute of the conventions")]);
    check_in(Version::Latest, chat(), cached(new), &[]);
    check_in(
        Version::Latest,
        chat(),
        cached(old),
        &[&format!("`{old}` is no attribute of the conventions")],
    );
    let top_k = |value: Value| move |span: &mut Span| set(span, "gen_ai.request.top_k", value);
    check(chat(), top_k(Value::DoubleValue(5.0)), &[]);
    check_in(Version::Latest, chat(), top_k(Value::IntValue(5)), &[]);
    check_in(
        Version::Latest,
        chat(),
        top_k(Value::DoubleValue(5.0)),
        &["`gen_ai.request.top_k` is double where int is due"],
    );
    check_in(
        Version::Latest,
        agent(Version::Latest),
        |span| set(span, "gen_ai.provider.name", text("anthropic")),
        &["`gen_ai.provider.name` is not in the definition"],
    );
    check(agent(Version::Latest), |_| {}, &["`gen_ai.provider.name` is missing"]);
}
