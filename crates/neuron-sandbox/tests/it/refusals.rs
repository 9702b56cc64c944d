//! Tests of tools, programs and settings that the sandbox rejects.

use std::sync::Arc;

use neuron_sandbox::{CommandTool, Confined, NoOpSandbox, ProcessSandbox};
use neuron_tool::ToolRegistry;
use neuron_types::{
    Sandbox as _, SandboxError, ToolCommand, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::{Folder, Runs, build, builder, run, shell};

/// A tool whose code runs in this process.
struct InProcess;

impl ToolDyn for InProcess {
    fn name(&self) -> &str {
        "in_process"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: "in_process".into(), ..Runs(|| Ok(shell(""))).definition() }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text("ran")) })
    }
}

#[tokio::test]
async fn programs_only_rejects_tools_of_this_process() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(InProcess));
    registry.set_sandbox(sandbox);
    let ran = registry.execute("in_process", json!({}), &ToolContext::default()).await;
    assert_eq!(ran.unwrap(), ToolOutput::text("ran"));
    let Some(strict) = build(builder(&folder).programs_only()) else { return };
    registry.set_sandbox(strict);
    let build = |registry: ToolRegistry| {
        let provider = neuron_testing::ScriptedProvider::new(["hi"]);
        neuron_loop::Agent::builder(provider).tools(registry).try_build().map(drop)
    };
    let error = build(registry.clone()).unwrap_err().to_string();
    assert!(error.starts_with("the tool `in_process` cannot run: "), "{error}");
    let error =
        registry.execute("in_process", json!({}), &ToolContext::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "execution failed: sandbox setup failed: `in_process` runs in this process and cannot be \
         confined, and this sandbox takes only tools that run a program (`programs_only`)"
    );
}

#[tokio::test]
async fn command_tool_runs_only_in_a_sandbox() {
    let tool = || Arc::new(Confined(Runs(|| Ok(ToolCommand::new("echo").arg("hi")))));
    let ctx = ToolContext::default();
    let mut registry = ToolRegistry::new();
    registry.register_dyn(tool());
    let expected = "sandbox setup failed: `runs` runs a program, and there is no sandbox for it";
    let error = registry.execute("runs", json!({}), &ctx).await.unwrap_err();
    assert_eq!(error.to_string(), format!("execution failed: {expected}"));
    let unconfined = "the tool `runs` cannot run: it runs a program, and there is no sandbox";
    assert_eq!(registry.check_runnable().unwrap_err().to_string(), unconfined);
    let mut outer = ToolRegistry::new();
    outer.merge_prefixed("x", registry.clone()).unwrap();
    assert_eq!(outer.check_runnable().unwrap_err().to_string(), unconfined);
    let error = NoOpSandbox.execute_tool(&*tool(), json!({}), &ctx).await.unwrap_err();
    assert_eq!(error.to_string(), format!("execution failed: {expected}"));

    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    registry.set_sandbox(sandbox.clone());
    registry.check_runnable().unwrap();
    outer.set_sandbox(sandbox);
    outer.check_runnable().unwrap();
    let output = registry.execute("runs", json!({}), &ctx).await.unwrap();
    assert_eq!(output, ToolOutput::text("hi\n"));
}

#[tokio::test]
async fn error_of_a_tool_is_passed_on() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let tool = Confined(Runs(|| Err(ToolError::ModelRetry("give a path".into()))));
    let error = sandbox.execute_tool(&tool, json!({}), &ToolContext::default()).await.unwrap_err();
    assert!(matches!(error, SandboxError::Tool(ToolError::ModelRetry(_))), "{error:?}");
}

#[test]
fn error_names_a_missing_path() {
    let folder = Folder::new();
    if build(builder(&folder)).is_none() {
        return;
    }
    let missing = folder.path().join("missing");
    let text = missing.to_str().unwrap();
    for builder in [
        ProcessSandbox::builder(&missing),
        builder(&folder).read(&missing),
        builder(&folder).write(&missing),
        builder(&folder).execute(&missing),
    ] {
        let error = builder.build().unwrap_err();
        assert!(
            matches!(&error, SandboxError::SetupFailed(reason) if reason.contains(text)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn without_system_paths_the_shell_cannot_start() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).without_system_paths()) else { return };
    let error =
        run(&sandbox, ToolCommand::new(std::env::current_exe().unwrap())).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::SetupFailed(reason) if reason.contains("sh in the sandbox")),
        "{error}"
    );
    let error = run(&sandbox, ToolCommand::new("true")).await.unwrap_err();
    assert!(error.to_string().contains("not where programs may run"), "{error}");
}

#[test]
fn debug_hides_values_of_the_environment() {
    let folder = Folder::new();
    let text = format!("{:?}", builder(&folder).env("TOKEN", "hunter2"));
    assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
}
