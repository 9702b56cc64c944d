//! Tests the chapter of neuron's book on tools, with the traits, the registry, the context, and middleware.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use neuron_tool::middleware::{Next, ToolCall, ToolMiddleware};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    ContentItem, ProgressReporter, Tool, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

// The section "Implementing Tool manually" of the book.

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct SearchArgs {
    query: String,
    max_results: Option<usize>,
}

#[expect(dead_code, reason = "as printed")]
struct SearchTool {
    api_key: String,
}

impl Tool for SearchTool {
    const NAME: &'static str = "search";
    type Args = SearchArgs;
    type Output = Vec<String>;
    type Error = std::io::Error;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "search".into(),
            title: Some("Web Search".into()),
            description: "Search the web for information".into(),
            input_schema: serde_json::to_value(schemars::schema_for!(SearchArgs)).unwrap(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(
        &self,
        args: SearchArgs,
        _ctx: &ToolContext,
    ) -> Result<Vec<String>, std::io::Error> {
        let max = args.max_results.unwrap_or(5);
        Ok(vec![format!("Result for '{}' (max {})", args.query, max)])
    }
}

pub(crate) fn search_tool() -> impl Tool + 'static {
    SearchTool { api_key: "key".into() }
}

#[tokio::test]
async fn manual_tool_runs_through_the_registry() {
    let mut registry = ToolRegistry::new();
    registry.register(search_tool());
    let ctx = ToolContext::default();
    let output = registry.execute("search", json!({ "query": "rust" }), &ctx).await.unwrap();
    assert_eq!(
        output,
        ToolOutput {
            content: vec![ContentItem::Text(r#"["Result for 'rust' (max 5)"]"#.into())],
            structured_content: Some(json!(["Result for 'rust' (max 5)"])),
            is_error: false,
        }
    );
    let definition = registry.definitions().remove(0);
    assert_eq!(definition.title.as_deref(), Some("Web Search"));
    assert_eq!(definition.input_schema["required"], json!(["query"]));
}

// The section "Tool – strongly typed" of the book. Uses the signature with `impl Future + Send`.

struct Spelled;

impl Tool for Spelled {
    const NAME: &'static str = "spelled";
    type Args = SearchArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: Self::NAME.into(), ..Tool::definition(&search_tool()) }
    }

    fn call(
        &self,
        args: Self::Args,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send {
        async move { Ok(format!("{}{}", ctx.session_id, args.query)) }
    }
}

// The section "ToolDyn – type-erased" of the book. Uses the signature with elided lifetimes.

struct Erased;

impl ToolDyn for Erased {
    fn name(&self) -> &str {
        "my_tool"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: "my_tool".into(), ..Tool::definition(&search_tool()) }
    }

    fn call_dyn(
        &self,
        input: serde_json::Value,
        _ctx: &ToolContext,
    ) -> WasmBoxedFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move { Ok(ToolOutput::text(input.to_string())) })
    }
}

/// Contains the code of the section "ToolRegistry" of neuron's book.
async fn registry_snippet(
    arc_tool_dyn: Arc<dyn ToolDyn>,
    json_input: serde_json::Value,
    tool_ctx: ToolContext,
) -> Result<(), ToolError> {
    let mut registry = ToolRegistry::new();

    // Register a strongly-typed tool (auto-erased to ToolDyn)
    registry.register(Spelled);

    // Register a pre-erased tool (e.g. from MCP bridge)
    registry.register_dyn(arc_tool_dyn);

    // Get all definitions to send to the LLM
    let defs: Vec<ToolDefinition> = registry.definitions();

    // Execute a tool by name with JSON input
    let output = registry.execute("my_tool", json_input, &tool_ctx).await?;

    // Look up a specific tool
    let tool: Option<Arc<dyn ToolDyn>> = registry.get("my_tool");

    assert_eq!(defs.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["spelled", "my_tool"]);
    assert_eq!(output.content, [ContentItem::Text("{}".into())]);
    assert_eq!(tool.unwrap().name(), "my_tool");
    Ok(())
}

#[tokio::test]
async fn registry_accepts_typed_and_erased_tools() {
    let erased: Arc<dyn ToolDyn> = Arc::new(Erased);
    registry_snippet(erased, json!({}), ToolContext::default()).await.unwrap();
}

#[tokio::test]
async fn typed_tool_implements_tool_dyn() {
    let tool: Arc<dyn ToolDyn> = Arc::new(Spelled);
    let ctx = ToolContext { session_id: "s-".into(), ..Default::default() };
    assert_eq!((tool.name(), tool.definition().name.as_str()), ("spelled", "spelled"));
    let output = tool.call_dyn(json!({ "query": "q" }), &ctx).await.unwrap();
    assert_eq!(output.content, [ContentItem::Text("s-q".into())]);
    let error = tool.call_dyn(json!({}), &ctx).await.unwrap_err();
    assert!(matches!(error, ToolError::InvalidInput(_)), "{error}");
}

#[test]
fn context_has_the_fields_and_defaults_of_the_table() {
    let ToolContext { cwd, session_id, environment, cancellation_token, progress_reporter, .. } =
        ToolContext::default();
    let cwd: PathBuf = cwd;
    let session_id: String = session_id;
    let environment: HashMap<String, String> = environment;
    let cancellation_token: CancellationToken = cancellation_token;
    let progress_reporter: Option<Arc<dyn ProgressReporter>> = progress_reporter;
    assert_eq!(cwd, std::env::current_dir().unwrap());
    assert_eq!(session_id, "");
    assert!(environment.is_empty());
    assert!(!cancellation_token.is_cancelled());
    assert!(progress_reporter.is_none());
    // Every default context has its own token. Cancelling one token does not cancel another.
    cancellation_token.cancel();
    assert!(!ToolContext::default().cancellation_token.is_cancelled());
}

#[tokio::test]
async fn closure_works_as_logging_middleware() {
    let logging = tool_middleware_fn(|call, ctx, next| {
        Box::pin(async move {
            println!("calling tool: {}", call.name);
            let result = next.run(call, ctx).await;
            println!(
                "tool completed: is_error={}",
                result.as_ref().map(|o| o.is_error).unwrap_or(true)
            );
            result
        })
    });

    let mut registry = ToolRegistry::new();
    registry.add_middleware(logging);

    registry.register(search_tool());
    let ctx = ToolContext::default();
    let output = registry.execute("search", json!({ "query": "q" }), &ctx).await;
    assert!(!output.unwrap().is_error);
}

struct RateLimiter {/* ... */}

impl ToolMiddleware for RateLimiter {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            // Check rate limit, then proceed
            next.run(call, ctx).await
        })
    }
}

/// Contains the code of the section "Input validation middleware" of neuron's book.
#[expect(clippy::collapsible_if, reason = "as printed")]
fn add_validation(registry: &mut ToolRegistry) {
    // Input validation middleware — rejects invalid arguments with a hint
    // so the model can self-correct
    registry.add_middleware(tool_middleware_fn(|call, ctx, next| {
        Box::pin(async move {
            // Validate URL arguments
            if let Some(url) = call.input.get("url").and_then(|v| v.as_str()) {
                if !url.starts_with("https://") {
                    return Err(ToolError::ModelRetry(format!(
                        "url must start with https://, got '{url}'"
                    )));
                }
            }

            // Validate numeric ranges
            if let Some(count) = call.input.get("count").and_then(|v| v.as_u64()) {
                if count == 0 || count > 100 {
                    return Err(ToolError::ModelRetry(format!("count must be 1-100, got {count}")));
                }
            }

            // Input is valid — proceed to the tool
            next.run(call, ctx).await
        })
    }));
}

/// Contains the code of the section "Scoping validation to specific tools" of neuron's book.
#[expect(clippy::collapsible_if, reason = "as printed")]
fn add_scoped_validation(registry: &mut ToolRegistry) {
    // This validation runs only when the "fetch_page" tool is called
    registry.add_tool_middleware(
        "fetch_page",
        tool_middleware_fn(|call, ctx, next| {
            Box::pin(async move {
                if let Some(url) = call.input.get("url").and_then(|v| v.as_str()) {
                    if !url.starts_with("https://") {
                        return Err(ToolError::ModelRetry(format!(
                            "fetch_page requires an https:// URL, got '{url}'"
                        )));
                    }
                }
                next.run(call, ctx).await
            })
        }),
    );
}

#[tokio::test]
async fn validation_middleware_rejects_only_invalid_input() {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(Erased));
    registry.add_middleware(RateLimiter {});
    add_validation(&mut registry);
    let ctx = ToolContext::default();
    for (input, hint) in [
        (json!({ "url": "http://a" }), Some("url must start with https://, got 'http://a'")),
        (json!({ "count": 0 }), Some("count must be 1-100, got 0")),
        (json!({ "count": 101 }), Some("count must be 1-100, got 101")),
        (json!({ "url": "https://a", "count": 100 }), None),
    ] {
        match (registry.execute("my_tool", input, &ctx).await, hint) {
            (Ok(_), None) => {}
            (Err(ToolError::ModelRetry(said)), Some(hint)) => assert_eq!(said, hint),
            (other, hint) => panic!("{other:?} instead of {hint:?}"),
        }
    }
}

#[tokio::test]
async fn scoped_validation_does_not_affect_other_tools() {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(Erased));
    add_scoped_validation(&mut registry);
    struct FetchPage;
    impl ToolDyn for FetchPage {
        fn name(&self) -> &str {
            "fetch_page"
        }
        fn definition(&self) -> ToolDefinition {
            ToolDefinition { name: "fetch_page".into(), ..Erased.definition() }
        }
        fn call_dyn(
            &self,
            _input: serde_json::Value,
            _ctx: &ToolContext,
        ) -> WasmBoxedFuture<'_, Result<ToolOutput, ToolError>> {
            Box::pin(async { Ok(ToolOutput::text("page")) })
        }
    }
    registry.register_dyn(Arc::new(FetchPage));
    let (ctx, input) = (ToolContext::default(), json!({ "url": "http://a" }));
    assert!(registry.execute("my_tool", input.clone(), &ctx).await.is_ok());
    let refused = registry.execute("fetch_page", input, &ctx).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "fetch_page requires an https:// URL, got 'http://a'"
    );
}

#[tokio::test]
async fn global_middleware_runs_before_the_middleware_of_a_tool() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let log = log.clone();
        tool_middleware_fn(move |call, ctx, next| {
            log.lock().unwrap().push(name);
            next.run(call, ctx)
        })
    };
    let (logging_middleware, auth_mw) = (note("logging"), note("auth"));
    let mut registry = ToolRegistry::new();
    registry.register(search_tool());
    registry.register(Spelled);

    registry.add_middleware(logging_middleware); // Runs first for ALL tools
    registry.add_tool_middleware("search", auth_mw); // Runs second, only for "search"
    // The tool itself runs last

    let ctx = ToolContext::default();
    for tool in ["search", "spelled"] {
        let done = registry.execute(tool, json!({ "query": "q" }), &ctx).await;
        assert!(done.is_ok());
    }
    assert_eq!(*log.lock().unwrap(), ["logging", "auth", "logging"]);
}

/// Contains the code of the section on `ModelRetry` in neuron's book. In the book, the code is the body of a tool's
/// `call`.
fn query_of(args: SearchArgs) -> Result<String, ToolError> {
    fn is_valid_query(query: &str) -> bool {
        query.starts_with("SELECT ")
    }
    if !is_valid_query(&args.query) {
        return Err(ToolError::ModelRetry(
            "Query must be a valid SQL SELECT statement. \
         You provided a DELETE statement."
                .to_string(),
        ));
    }
    Ok(args.query)
}

#[test]
fn model_retry_text_is_the_hint() {
    let args = SearchArgs { query: "DELETE".into(), max_results: None };
    assert_eq!(
        query_of(args).unwrap_err().to_string(),
        "Query must be a valid SQL SELECT statement. You provided a DELETE statement."
    );
}
