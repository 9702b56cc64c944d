//! Tests the section on built-in middleware in the chapter of neuron's book on tools.

use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ContentItem, PermissionDecision, PermissionPolicy, Tool, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::json;

use super::tools::search_tool;

/// Contains the code of the section "Built-in middleware" of neuron's book.
#[expect(unused_imports, reason = "as printed")]
fn add_built_in(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::{OutputFormatter, PermissionChecker, SchemaValidator};

    // Truncate outputs longer than 10,000 characters
    registry.add_middleware(OutputFormatter::new(10_000));

    // Validate inputs before execution
    let validator = SchemaValidator::new(&registry);
    registry.add_middleware(validator);
    registry
}

/// Contains the code of the section "TimeoutMiddleware" of neuron's book.
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

/// Contains the code of the section "StructuredOutputValidator" of neuron's book.
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

/// Contains the code of the section "RetryLimitedValidator" of neuron's book.
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
async fn built_in_middleware_truncates_outputs_and_validates_inputs() {
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

/// Adds a `PermissionChecker` to a registry with the search tool. Its policy allows, denies or asks, depending on the
/// query.
fn add_permissions(mut registry: ToolRegistry) -> ToolRegistry {
    use neuron_tool::builtin::PermissionChecker;

    struct ByQuery;

    impl PermissionPolicy for ByQuery {
        fn check(&self, tool_name: &str, input: &serde_json::Value) -> PermissionDecision {
            assert_eq!(tool_name, "search");
            match input["query"].as_str() {
                Some("secrets") => PermissionDecision::Deny("no secrets".into()),
                Some("people") => PermissionDecision::Ask("search for people?".into()),
                _ => PermissionDecision::Allow,
            }
        }
    }

    registry.add_middleware(PermissionChecker::new(ByQuery));
    registry
}

#[tokio::test]
async fn permission_checker_rejects_denied_and_unapproved_calls() {
    let queries = ["rust", "secrets", "people"].map(|query| json!({ "query": query }));
    let results = run(add_permissions, &queries).await;
    assert!(results[0].is_ok(), "{results:?}");
    for (result, why) in results[1..].iter().zip(["no secrets", "search for people?"]) {
        match result {
            Err(ToolError::PermissionDenied(reason)) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_within_their_timeout_pass() {
    assert!(run(add_timeout, &[json!({ "query": "q" })]).await.remove(0).is_ok());
}

/// A tool whose calls never end. The field is the name of the tool.
struct Hangs(&'static str);

impl ToolDyn for Hangs {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: self.0.into(), ..Tool::definition(&search_tool()) }
    }

    fn call_dyn(
        &self,
        _input: serde_json::Value,
        _ctx: &ToolContext,
    ) -> WasmBoxedFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_exceeds_its_timeout_is_an_execution_failure() {
    for (tool, seconds) in [("fetch", 30), ("slow_search", 120), ("code_execution", 300)] {
        let mut registry = ToolRegistry::new();
        registry.register_dyn(Arc::new(Hangs(tool)));
        let (registry, ctx) = (add_timeout(registry), ToolContext::default());
        let start = tokio::time::Instant::now();
        let error = registry.execute(tool, json!({}), &ctx).await.unwrap_err();
        // The clock is paused, so it stops exactly at the limit, with a precision of one millisecond.
        assert_eq!(start.elapsed().as_secs(), seconds, "{tool}");
        assert!(matches!(error, ToolError::ExecutionFailed(_)), "{error:?}");
        let text = format!("execution failed: `{tool}` exceeded its time limit of {seconds}s");
        assert_eq!(error.to_string(), text);
    }
}

/// Checks the book's statement "Unlike `SchemaValidator` (which returns `ToolError::InvalidInput` on failure)". The
/// other validator, `StructuredOutputValidator`, returns `ToolError::ModelRetry`.
#[tokio::test]
async fn validators_differ_in_their_error() {
    let mut kinds = Vec::new();
    for add in [add_built_in, add_structured] {
        kinds.push(run(add, &[json!({})]).await.remove(0).unwrap_err().kind());
    }
    assert_eq!(kinds, ["InvalidInput", "ModelRetry"]);
}

#[tokio::test]
async fn structured_validator_never_stops_hinting() {
    for result in run(add_structured, &vec![json!({ "result": 1 }); 10]).await {
        assert!(matches!(result, Err(ToolError::ModelRetry(_))), "{result:?}");
    }
}

#[tokio::test]
async fn retry_limited_validator_ends_with_invalid_input() {
    let results = run(add_retry_limited, &vec![json!({ "result": 1 }); 4]).await;
    let kinds: Vec<_> = results.iter().map(|result| result.as_ref().unwrap_err().kind()).collect();
    assert_eq!(kinds, ["ModelRetry", "ModelRetry", "ModelRetry", "InvalidInput"]);
}
