//! Tools: the built-in middleware.

use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{ContentItem, ToolContext, ToolError, ToolOutput};
use serde_json::json;

use crate::tools::search_tool;

/// "Built-in middleware"
fn add_built_in(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::{OutputFormatter, SchemaValidator};

    // Truncate outputs longer than 10,000 characters
    registry.add_middleware(OutputFormatter::new(10_000));

    // Validate inputs before execution
    let validator = SchemaValidator::new(&registry);
    registry.add_middleware(validator);
    registry
}

/// "TimeoutMiddleware"
fn add_timeout(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::TimeoutMiddleware;

    // Default timeout of 30 seconds for all tools
    let timeout = TimeoutMiddleware::new(Duration::from_secs(30))
        // Override for specific tools that need more time
        .with_tool_timeout("slow_search", Duration::from_secs(120))
        .with_tool_timeout("code_execution", Duration::from_secs(300));

    registry.add_middleware(timeout);
    registry
}

/// "StructuredOutputValidator"
fn add_structured(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::StructuredOutputValidator;

    // Validate tool output against a JSON Schema, with up to 3 retries
    let schema = serde_json::json!({
        "type": "object",
        "required": ["result"],
        "properties": { "result": { "type": "string" } }
    });
    let validator = StructuredOutputValidator::new(schema, 3);
    registry.add_middleware(validator);
    registry
}

/// "RetryLimitedValidator"
fn add_retry_limited(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::{RetryLimitedValidator, StructuredOutputValidator};

    // Create a structured validator, then wrap it with a retry limit
    let schema = serde_json::json!({
        "type": "object",
        "required": ["result"],
        "properties": { "result": { "type": "string" } }
    });
    let inner = StructuredOutputValidator::new(schema, 3);
    let validator = RetryLimitedValidator::new(inner);
    registry.add_middleware(validator);
    registry
}

async fn run(
    add: fn(ToolRegistry) -> ToolRegistry,
    inputs: &[serde_json::Value],
) -> Vec<Result<ToolOutput, ToolError>> {
    let mut registry = ToolRegistry::new();
    registry.register(search_tool());
    let registry = add(registry);
    let ctx = ToolContext::default();
    let mut results = Vec::new();
    for input in inputs {
        results.push(registry.execute("search", input.clone(), &ctx).await);
    }
    results
}

#[tokio::test]
async fn outputs_are_truncated_and_inputs_validated() {
    let missing_and_mistyped = [json!({}), json!({ "query": 1 })];
    for result in run(add_built_in, &missing_and_mistyped).await {
        assert!(matches!(result, Err(ToolError::InvalidInput(_))), "{result:?}");
    }
    let long = json!({ "query": "ü".repeat(20_000) });
    let output = run(add_built_in, &[long]).await.remove(0).unwrap();
    let [ContentItem::Text(text)] = &output.content[..] else { panic!("one text") };
    let (shown, notice) = text.split_once("\n[truncated: ").unwrap();
    assert_eq!(shown.chars().count(), 10_000);
    assert_eq!(notice, "the first 10000 of 20025 characters are shown]");
}

#[tokio::test(start_paused = true)]
async fn tools_within_their_time_pass() {
    assert!(run(add_timeout, &[json!({ "query": "q" })]).await.remove(0).is_ok());
}

#[tokio::test]
async fn a_structured_validator_hints_without_end() {
    for result in run(add_structured, &vec![json!({ "result": 1 }); 10]).await {
        assert!(matches!(result, Err(ToolError::ModelRetry(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_retry_limited_validator_ends_with_invalid_input_after_the_retries() {
    let results = run(add_retry_limited, &vec![json!({ "result": 1 }); 4]).await;
    let kinds: Vec<_> = results.iter().map(|result| result.as_ref().unwrap_err().kind()).collect();
    assert_eq!(kinds, ["ModelRetry", "ModelRetry", "ModelRetry", "InvalidInput"]);
}
