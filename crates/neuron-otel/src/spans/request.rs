//! Recording of the attributes of a request to a model.

use neuron_types::{ReasoningEffort, RequestRef, ResponseFormat};
use serde_json::Value;

use crate::ContentKind;
use crate::config::Config;
use crate::content;
use crate::record::Record;
use crate::run_state::RunState;

/// Records the request settings that runs and model calls have in common. Some settings exist only for certain vendors.
/// They are read from the request's `extra` fields, under their usual names.
pub(crate) fn settings(record: &Record<'_>, request: &RequestRef<'_>) {
    if let Some(tokens) = request.max_tokens {
        record.count("gen_ai.request.max_tokens", tokens);
    }
    if let Some(temperature) = request.temperature {
        record.number("gen_ai.request.temperature", short(temperature));
    }
    if let Some(top_p) = request.top_p {
        record.number("gen_ai.request.top_p", short(top_p));
    }
    if !request.stop_sequences.is_empty() {
        let sequences = request.stop_sequences.iter().map(String::as_str);
        record.texts("gen_ai.request.stop_sequences", sequences);
    }
    match &request.response_format {
        Some(ResponseFormat::Text) => record.text("gen_ai.output.type", "text"),
        Some(ResponseFormat::JsonObject | ResponseFormat::JsonSchema { .. }) => {
            record.text("gen_ai.output.type", "json");
        }
        _ => {}
    }
    let extra = |name: &str| request.extra.and_then(|extra| extra.get(name));
    if let Some(penalty) = extra("frequency_penalty").and_then(Value::as_f64) {
        record.number("gen_ai.request.frequency_penalty", penalty);
    }
    if let Some(penalty) = extra("presence_penalty").and_then(Value::as_f64) {
        record.number("gen_ai.request.presence_penalty", penalty);
    }
    if let Some(seed) = extra("seed").and_then(Value::as_i64) {
        record.integer("gen_ai.request.seed", seed);
    }
    // The conventions require the number of choices only if it is not 1.
    if let Some(choices) = extra("n").and_then(Value::as_i64).filter(|choices| *choices != 1) {
        record.integer("gen_ai.request.choice.count", choices);
    }
}

/// Records the settings that only the spans of model calls have.
pub(crate) fn settings_of_call(record: &Record<'_>, request: &RequestRef<'_>, config: &Config) {
    let top_k = request.extra.and_then(|extra| extra.get("top_k"));
    // `top_k` is an integer in the latest conventions and a double in 1.41.
    if config.conventions.is_latest() {
        if let Some(top_k) = top_k.and_then(Value::as_i64) {
            record.integer("gen_ai.request.top_k", top_k);
        }
        if let Some(effort) = &request.reasoning_effort {
            let effort = match effort {
                ReasoningEffort::None => "none",
                ReasoningEffort::Low => "low",
                ReasoningEffort::Medium => "medium",
                ReasoningEffort::High => "high",
                _ => return,
            };
            record.text("gen_ai.request.reasoning.level", effort);
        }
    } else if let Some(top_k) = top_k.and_then(Value::as_f64) {
        record.number("gen_ai.request.top_k", top_k);
    }
}

/// Records the content of the request, if spans contain content.
pub(crate) fn content(
    record: &Record<'_>,
    run: Option<&RunState>,
    request: &RequestRef<'_>,
    config: &Config,
) {
    if !config.captures_in_spans() {
        return;
    }
    let record_content = |name, kind, value| {
        if let Some(text) = config.content.captured(kind, value) {
            record.text(name, &text);
        }
    };
    if let Some(system) = request.system.filter(|system| !system.is_empty()) {
        let value = content::system_instructions(system);
        record_content("gen_ai.system_instructions", ContentKind::SystemInstructions, value);
    }
    if let Some(messages) = config.content.input_messages(run, request) {
        record.text("gen_ai.input.messages", &messages);
    }
    if !request.tools.is_empty() {
        let value = content::tool_definitions(request.tools);
        record_content("gen_ai.tool.definitions", ContentKind::ToolDefinitions, value);
    }
}

/// Converts a number to `f64` through its shortest decimal text, so that 0.7 stays 0.7.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}
