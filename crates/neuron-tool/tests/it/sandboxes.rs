//! Tests of a registry's sandbox. They check its position inside the middleware, merged registries, and errors.

use std::sync::{Arc, Mutex};

use neuron_tool::{ToolRegistry, ToolSearch, tool_middleware_fn};
use neuron_types::{
    CALL_TOOL, CommandOutput, SEARCH_TOOLS, Sandbox, SandboxError, SandboxLimit, ToolContext,
    ToolDyn, ToolError, ToolOutput,
};
use serde_json::{Value, json};

use crate::support::{Result, echo, tool};

type Log = Arc<Mutex<Vec<String>>>;

/// A sandbox that logs the calls and runs the tool.
struct LoggingSandbox {
    name: &'static str,
    log: Log,
}

impl Sandbox for LoggingSandbox {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> std::result::Result<ToolOutput, SandboxError> {
        self.log.lock().unwrap().push(format!("{}: {} {}", self.name, tool.name(), ctx.call_id));
        Ok(tool.call_dyn(input, ctx).await?)
    }
}

/// A sandbox that fails with the error that the arguments of the call name.
struct FailingSandbox;

impl Sandbox for FailingSandbox {
    async fn execute_tool(
        &self,
        _tool: &dyn ToolDyn,
        input: Value,
        _ctx: &ToolContext,
    ) -> std::result::Result<ToolOutput, SandboxError> {
        Err(match input.as_str() {
            Some("setup") => SandboxError::SetupFailed("no".into()),
            Some("limit") => SandboxError::LimitExceeded {
                limit: SandboxLimit::Processes(4),
                output: Box::<CommandOutput>::default(),
            },
            Some("retry") => SandboxError::Tool(ToolError::ModelRetry("again".into())),
            Some("cancelled") => SandboxError::Tool(ToolError::Cancelled),
            _ => panic!("the sandbox panics"),
        })
    }
}

fn logging(log: &Log, name: &'static str) -> LoggingSandbox {
    LoggingSandbox { name, log: log.clone() }
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn add_logging_middleware(registry: &mut ToolRegistry, log: &Log, name: &'static str) {
    let log = log.clone();
    registry.add_middleware(tool_middleware_fn(move |call, ctx, next| {
        log.lock().unwrap().push(format!("{name}: {}", call.name));
        next.run(call, ctx)
    }));
}

async fn call(registry: &ToolRegistry, name: &str) -> Result {
    let ctx = ToolContext { call_id: "c1".into(), ..Default::default() };
    registry.execute(name, json!("hi"), &ctx).await
}

#[tokio::test]
async fn sandbox_is_inside_all_middleware() {
    let log = Log::default();
    let mut registry = ToolRegistry::new();
    registry.register_dyn(echo("say"));
    registry.set_sandbox(logging(&log, "box"));
    assert_eq!(call(&registry, "say").await.unwrap(), ToolOutput::text("\"hi\""));
    assert_eq!(taken(&log), ["box: say c1"]);

    add_logging_middleware(&mut registry, &log, "outer");
    call(&registry, "say").await.unwrap();
    assert_eq!(taken(&log), ["outer: say", "box: say c1"]);

    let shared = registry.clone();
    assert!(registry.remove_sandbox().is_some() && registry.remove_sandbox().is_none());
    call(&registry, "say").await.unwrap();
    assert_eq!(taken(&log), ["outer: say"]);
    call(&shared, "say").await.unwrap();
    assert_eq!(taken(&log), ["outer: say", "box: say c1"]);
}

#[tokio::test]
async fn refused_and_unknown_calls_do_not_reach_the_sandbox() {
    let log = Log::default();
    let mut registry = ToolRegistry::new();
    registry.register_dyn(echo("say"));
    registry.set_sandbox(logging(&log, "box"));
    registry.add_middleware(tool_middleware_fn(|_, _, _| {
        Box::pin(async { Err(ToolError::PermissionDenied("no".into())) })
    }));
    assert!(matches!(call(&registry, "say").await, Err(ToolError::PermissionDenied(_))));
    assert!(matches!(call(&registry, "other").await, Err(ToolError::NotFound(_))));
    assert!(taken(&log).is_empty());
}

/// The middleware of a merged tool's original registry must run, and must run outside of the sandbox. Regression test.
#[tokio::test]
async fn sandbox_is_inside_the_middleware_of_a_merged_tool() {
    let log = Log::default();
    let mut innermost = ToolRegistry::new();
    innermost.register_dyn(echo("say"));
    add_logging_middleware(&mut innermost, &log, "innermost");
    let mut inner = ToolRegistry::new();
    inner.merge_prefixed("a_", innermost).unwrap();
    add_logging_middleware(&mut inner, &log, "inner");
    let mut outer = ToolRegistry::new();
    outer.merge_prefixed("b_", inner).unwrap();
    add_logging_middleware(&mut outer, &log, "outer");

    let names = ["outer: b_a_say", "inner: a_say", "innermost: say"];
    call(&outer, "b_a_say").await.unwrap();
    assert_eq!(taken(&log), names);

    outer.set_sandbox(logging(&log, "box"));
    call(&outer, "b_a_say").await.unwrap();
    assert_eq!(taken(&log), [&names[..], &["box: say c1"]].concat());
}

#[tokio::test]
async fn merged_registry_keeps_its_sandbox() {
    for prefix in ["", "a_"] {
        let log = Log::default();
        let mut inner = ToolRegistry::new();
        inner.register_dyn(echo("say"));
        inner.set_sandbox(logging(&log, "inner"));
        let mut outer = ToolRegistry::new();
        outer.register_dyn(echo("own"));
        outer.merge_prefixed(prefix, inner).unwrap();

        let name = format!("{prefix}say");
        call(&outer, &name).await.unwrap();
        assert_eq!(taken(&log), ["inner: say c1"], "without one around it");
        outer.set_sandbox(logging(&log, "outer"));
        call(&outer, &name).await.unwrap();
        assert_eq!(taken(&log), ["inner: say c1"], "with one around it");
        call(&outer, "own").await.unwrap();
        assert_eq!(taken(&log), ["outer: own c1"]);
    }
}

#[tokio::test]
async fn sandbox_errors_keep_their_class_and_panics_are_caught() {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(tool("never", |_| panic!("the tool must not run")));
    registry.set_sandbox(FailingSandbox);
    let ctx = ToolContext::default();
    let run = async |how: &str| registry.execute("never", json!(how), &ctx).await;

    assert!(matches!(run("retry").await, Err(ToolError::ModelRetry(hint)) if hint == "again"));
    assert!(matches!(run("cancelled").await, Err(ToolError::Cancelled)));
    let source = |result: Result| match result {
        Err(ToolError::ExecutionFailed(source)) => *source.downcast::<SandboxError>().unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(source(run("setup").await), SandboxError::SetupFailed(_)));
    let limit = source(run("limit").await);
    assert!(
        matches!(limit, SandboxError::LimitExceeded { limit: SandboxLimit::Processes(4), .. }),
        "{limit:?}"
    );
    assert!(run("panic").await.unwrap().is_error);
}

/// A sandbox that takes only the tool `say`.
struct Strict;

impl Sandbox for Strict {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> std::result::Result<ToolOutput, SandboxError> {
        self.check_tool(tool)?;
        Ok(tool.call_dyn(input, ctx).await?)
    }

    fn check_tool(&self, tool: &dyn ToolDyn) -> std::result::Result<(), SandboxError> {
        match tool.name() {
            "say" => Ok(()),
            name => Err(SandboxError::SetupFailed(format!("`{name}` cannot be confined"))),
        }
    }
}

/// Regression test. The search for deferred tools ran in the sandbox. A strict sandbox refused every search.
#[tokio::test]
async fn search_for_deferred_tools_runs_outside_of_the_sandbox() {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(echo("say"));
    registry.set_sandbox(Strict);
    registry.defer_tools(ToolSearch::new()).unwrap();
    registry.check_runnable().unwrap();
    let ctx = ToolContext::default();
    let found = registry.execute(SEARCH_TOOLS, json!({ "query": "say" }), &ctx).await.unwrap();
    assert!(found.content[0].to_string().contains(r#""name":"say""#), "{found:?}");
    let error = registry.execute(CALL_TOOL, json!({}), &ctx).await.unwrap_err();
    assert!(matches!(error, ToolError::InvalidInput(_)), "{error}");
    assert_eq!(call(&registry, "say").await.unwrap(), ToolOutput::text("\"hi\""));

    registry.register_dyn(echo("other"));
    let error = registry.check_runnable().unwrap_err().to_string();
    assert!(error.contains("other"), "{error}");
    call(&registry, "other").await.unwrap_err();
    // Without the search of a registry, a tool with the same name is an ordinary tool.
    let mut registry = ToolRegistry::new();
    registry.register_dyn(echo(SEARCH_TOOLS));
    registry.set_sandbox(Strict);
    registry.check_runnable().unwrap_err();
    call(&registry, SEARCH_TOOLS).await.unwrap_err();
}
