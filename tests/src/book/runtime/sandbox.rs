//! Tests the code and the statements of the section "Sandbox" of neuron's book.

use std::sync::Arc;

use neuron_runtime::Sandbox;
use neuron_types::{SandboxError, ToolContext, ToolDyn, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::Shout;

#[expect(dead_code, reason = "as printed")]
struct DockerSandbox {
    image: String,
}

#[expect(unused_variables, clippy::todo, reason = "as printed")]
impl Sandbox for DockerSandbox {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: serde_json::Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        // Spawn a container, execute tool inside, return output
        todo!()
    }
}

/// A sandbox that runs the tool in this process, without isolation. Its error texts start with the value of `image`,
/// the name of a container image.
struct Logged {
    image: String,
}

impl Sandbox for Logged {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: serde_json::Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        let failed =
            |error: ToolError| SandboxError::ExecutionFailed(format!("{}: {error}", self.image));
        tool.call_dyn(input, ctx).await.map_err(failed)
    }
}

async fn in_sandbox(
    sandbox: impl Sandbox,
    tool: Arc<dyn ToolDyn>,
    input: Value,
) -> Result<ToolOutput, SandboxError> {
    let ctx = ToolContext::default();
    let output = sandbox.execute_tool(&*tool, input, &ctx).await?;
    Ok(output)
}

#[tokio::test]
async fn custom_sandbox_runs_erased_tools() {
    let sandbox = || Logged { image: "alpine".into() };
    let output = in_sandbox(sandbox(), Arc::new(Shout), json!({ "text": "hi" }));
    assert_eq!(output.await.unwrap(), ToolOutput::text("HI"));
    let error = in_sandbox(sandbox(), Arc::new(Shout), json!({})).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "execution failed in the sandbox: alpine: invalid input: arguments of `shout`: missing \
         field `text`"
    );
}

/// The snippet "NoOpSandbox passes through directly" of the book, as printed.
#[tokio::test]
async fn no_op_sandbox_passes_calls_through() -> Result<(), SandboxError> {
    let tool: Arc<dyn ToolDyn> = Arc::new(Shout);
    let (input, ctx) = (json!({ "text": "hi" }), ToolContext::default());

    use neuron_runtime::{NoOpSandbox, Sandbox};

    // NoOpSandbox passes through directly (no isolation)
    let sandbox = NoOpSandbox;
    let output = sandbox.execute_tool(&*tool, input, &ctx).await?;

    assert_eq!(output, ToolOutput::text("HI"));
    Ok(())
}
