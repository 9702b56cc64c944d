//! Checks of spans against the definitions in OpenTelemetry's conventions.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::Checker;
use super::content::content;
use super::values::duplicates;
use crate::support::attributes::{Attributes, is_ours};
use crate::support::conventions::Conventions;

impl Checker {
    pub(super) fn span(&self, span: &Span) -> Vec<String> {
        let attributes = Attributes::new(&span.attributes);
        let mut problems = duplicates(&span.attributes);
        let is_conventional = attributes.iter().any(|(name, _)| Conventions::owns(name));
        match definitions(span.kind(), &attributes) {
            Some(definitions) => {
                problems.extend(self.defined(span, &attributes, &definitions));
                problems.extend(conditions(&attributes));
                problems.extend(content(&attributes));
                problems.extend(status(span, &attributes));
            }
            // These spans are neuron's own, such as compactions.
            None if span.name.starts_with("neuron.") => {
                problems.extend(self.known(&attributes));
                problems.extend(status(span, &attributes));
            }
            None if is_conventional => problems.push("its operation is not recorded".to_owned()),
            None => {}
        }
        if span.end_time_unix_nano < span.start_time_unix_nano {
            problems.push("it ends before it begins".to_owned());
        }
        problems
    }

    fn defined(&self, span: &Span, attributes: &Attributes, definitions: &[&str]) -> Vec<String> {
        let mut problems = Vec::new();
        let first = definitions[0];
        // The strictest requirement level applies, because a vendor's conventions make a recommended attribute
        // required.
        let mut levels: BTreeMap<&str, &str> = BTreeMap::new();
        for definition in definitions {
            for (name, level) in self.conventions.span_attributes(definition) {
                let strictest = levels.entry(name).or_insert(level);
                if level == "required" {
                    *strictest = level;
                }
            }
        }
        problems.extend(self.attributes(attributes, &levels));
        let kind = span.kind().as_str_name().trim_start_matches("SPAN_KIND_").to_lowercase();
        let due = self.conventions.kind(first);
        if kind != due {
            problems.push(format!("its kind is {kind} where {due} is due"));
        }
        let forms = self.conventions.names(first);
        let due = forms.iter().find_map(|form| filled(form, attributes));
        let due = due.filter(|_| !is_of_rejected_name(span, first, attributes));
        if due.as_ref().is_some_and(|due| *due != span.name) {
            problems.push(format!(
                "its name is `{}` where `{}` is due",
                span.name,
                due.unwrap_or_default()
            ));
        }
        problems
    }
}

/// Returns the names of the conventions' definitions that apply to a span. The first is the definition of the
/// operation. A second one may add attributes for a vendor or for MCP. Returns `None` if the conventions do not define
/// the span.
fn definitions(kind: SpanKind, attributes: &Attributes) -> Option<Vec<&'static str>> {
    let is_mcp = attributes.has("mcp.method.name");
    if is_mcp && kind == SpanKind::Server {
        return Some(vec!["mcp.server"]);
    }
    if is_mcp && kind == SpanKind::Client {
        return Some(vec!["mcp.client"]);
    }
    let mut definitions = match attributes.text("gen_ai.operation.name")? {
        "chat" | "generate_content" | "text_completion" => vec!["gen_ai.inference.client"],
        "embeddings" => vec!["gen_ai.embeddings.client"],
        "invoke_agent" => vec!["gen_ai.invoke_agent.internal"],
        "execute_tool" => vec!["gen_ai.execute_tool.internal"],
        _ => return None,
    };
    match (definitions[0], attributes.text("gen_ai.provider.name")) {
        ("gen_ai.inference.client", Some("anthropic")) => {
            definitions.push("anthropic.inference.client")
        }
        ("gen_ai.inference.client", Some("openai")) => definitions.push("openai.inference.client"),
        // The attributes of an MCP request are added to the span of the enclosing tool call.
        ("gen_ai.execute_tool.internal", _) if is_mcp => definitions.push("mcp.client"),
        _ => {}
    }
    Some(definitions)
}

/// Inserts the values of attributes into a name pattern. Returns `None` if an attribute is missing.
fn filled(form: &str, attributes: &Attributes) -> Option<String> {
    let mut name = String::new();
    let mut rest = form;
    while let Some((before, after)) = rest.split_once('{') {
        let (attribute, after) = after.split_once('}').expect("a form closes its braces");
        name.push_str(before);
        name.push_str(attributes.text(attribute)?);
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

/// Returns `true` for the span of a server that rejected an unknown tool or prompt, if the span does not contain the
/// name. Servers omit unknown names, because clients can invent any number of them.
fn is_of_rejected_name(span: &Span, definition: &str, attributes: &Attributes) -> bool {
    definition == "mcp.server"
        && attributes.text("rpc.response.status_code") == Some("-32602")
        && attributes.text("mcp.method.name") == Some(span.name.as_str())
}

/// Checks rules that restrict the value of an attribute, or relate it to other attributes. Returns a problem for each
/// violation. For example, a span must not have more cached tokens than input tokens.
fn conditions(attributes: &Attributes) -> Vec<String> {
    let mut problems = Vec::new();
    if attributes.bool("gen_ai.request.stream") == Some(false) {
        problems
            .push("`gen_ai.request.stream` is false: it is recorded only for streams".to_owned());
    }
    let streams = attributes.bool("gen_ai.request.stream") == Some(true);
    if attributes.has("gen_ai.response.time_to_first_chunk") && !streams {
        problems.push(
            "`gen_ai.response.time_to_first_chunk` of a call that does not stream".to_owned(),
        );
    }
    if attributes.int("gen_ai.request.choice.count") == Some(1) {
        problems.push("`gen_ai.request.choice.count` is 1, which is not recorded".to_owned());
    }
    if attributes.bool("gen_ai.conversation.compacted") == Some(false) {
        problems.push(
            "`gen_ai.conversation.compacted` is false: it is recorded only if it is true"
                .to_owned(),
        );
    }
    if attributes.list("gen_ai.response.finish_reasons").is_some_and(|reasons| reasons.is_empty()) {
        problems.push("`gen_ai.response.finish_reasons` is empty".to_owned());
    }
    // Detailed counts are parts of the total counts, so they must not be larger.
    let tokens = |name: &str| attributes.int(&format!("gen_ai.usage.{name}"));
    let cached =
        ["cache_read.input_tokens", "cache_creation.input_tokens", "cache_write.input_tokens"];
    let cached: i64 = cached.into_iter().filter_map(tokens).sum();
    if cached > tokens("input_tokens").unwrap_or(0) {
        problems.push(format!("{cached} cached tokens are not in `gen_ai.usage.input_tokens`"));
    }
    let reasoning = tokens("reasoning.output_tokens").unwrap_or(0);
    if reasoning > tokens("output_tokens").unwrap_or(0) {
        problems
            .push(format!("{reasoning} reasoning tokens are not in `gen_ai.usage.output_tokens`"));
    }
    // An MCP span has an operation name only if it is a tool call.
    let method = attributes.text("mcp.method.name");
    let operation = attributes.has("gen_ai.operation.name");
    if method.is_some_and(|method| (method == "tools/call") != operation) {
        problems.push("`gen_ai.operation.name` belongs to `tools/call`, and only there".to_owned());
    }
    problems
}

/// Checks that `error.type` is set if and only if the status is ERROR. The status OK is reserved for applications.
fn status(span: &Span, attributes: &Attributes) -> Vec<String> {
    let mut problems = Vec::new();
    let status = span.status.clone().unwrap_or_default();
    match (status.code(), attributes.has("error.type")) {
        (StatusCode::Error, false) => {
            problems.push("`error.type` is missing beside ERROR".to_owned())
        }
        (StatusCode::Unset, true) => problems.push("`error.type` without ERROR".to_owned()),
        (StatusCode::Ok, _) => {
            problems.push("its status is OK, which is an application's to say".to_owned())
        }
        _ => {}
    }
    let special = attributes.iter().filter(|(name, _)| is_ours(name) && name.starts_with("otel."));
    problems.extend(
        special.map(|(name, _)| format!("`{name}` is a field of the layer's, not an attribute")),
    );
    problems
}
