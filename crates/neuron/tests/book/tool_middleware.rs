//! Tools: the built-in middleware.

use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ContentItem, PermissionDecision, PermissionPolicy, Tool, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::json;

use crate::tools::search_tool;

/// "Built-in middleware"
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

/// What the list says of `PermissionChecker`.
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
async fn denied_calls_and_those_that_would_have_to_be_asked_for_are_refused() {
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
async fn tools_within_their_time_pass() {
    assert!(run(add_timeout, &[json!({ "query": "q" })]).await.remove(0).is_ok());
}

/// A tool under any name, that never ends.
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
async fn a_call_that_exceeds_its_time_is_cancelled_and_failed_execution() {
    for (tool, seconds) in [("fetch", 30), ("slow_search", 120), ("code_execution", 300)] {
        let mut registry = ToolRegistry::new();
        registry.register_dyn(Arc::new(Hangs(tool)));
        let (registry, ctx) = (add_timeout(registry), ToolContext::default());
        let start = tokio::time::Instant::now();
        let error = registry.execute(tool, json!({}), &ctx).await.unwrap_err();
        // The clock is paused: it stands at the very limit, give or take its own millisecond.
        assert_eq!(start.elapsed().as_secs(), seconds, "{tool}");
        assert!(matches!(error, ToolError::ExecutionFailed(_)), "{error:?}");
        let text = format!("execution failed: `{tool}` exceeded its time limit of {seconds}s");
        assert_eq!(error.to_string(), text);
    }
}

/// "Unlike `SchemaValidator` (which returns `ToolError::InvalidInput` on failure)".
#[tokio::test]
async fn the_two_validators_differ_in_whether_the_model_may_try_again() {
    let mut kinds = Vec::new();
    for add in [add_built_in, add_structured] {
        kinds.push(run(add, &[json!({})]).await.remove(0).unwrap_err().kind());
    }
    assert_eq!(kinds, ["InvalidInput", "ModelRetry"]);
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
