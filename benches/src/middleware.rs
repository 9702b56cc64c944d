//! Calls a tool through layers of middleware that do nothing.

use neuron_tool::{Next, ToolMiddleware, ToolRegistry};
use neuron_types::{ToolCall, ToolContext, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use crate::ALLOCATOR;
use crate::turn::Echo;

/// The numbers of middleware layers that the benchmark measures.
pub const LAYERS: [usize; 4] = [0, 1, 5, 10];

/// Middleware that only calls the next layer, written as a user would write it.
#[derive(Debug)]
struct Nothing;

impl ToolMiddleware for Nothing {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { next.run(call, ctx).await })
    }
}

/// Returns a registry with one tool and `layers` layers of middleware.
#[must_use]
pub fn registry(layers: usize) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(std::sync::Arc::new(Echo));
    for _ in 0..layers {
        registry.add_middleware(Nothing);
    }
    registry
}

/// Returns a call of the registry's tool.
#[must_use]
pub fn call() -> ToolCall {
    ToolCall { id: "call".into(), name: "echo".into(), input: Value::Null }
}

/// Executes `call` `times` times through the registry and its middleware, as the agent loop does.
///
/// # Errors
///
/// Returns the error of the tool. `Echo` never fails.
pub async fn call_through(
    registry: &ToolRegistry,
    call: &ToolCall,
    ctx: &ToolContext,
    times: usize,
) -> Result<(), ToolError> {
    for _ in 0..times {
        std::hint::black_box(registry.execute_call(call, ctx).await?);
    }
    Ok(())
}

/// Calls the tool `times` times directly, without a registry.
///
/// # Errors
///
/// Returns the error of the tool. `Echo` never fails.
pub async fn call_by_hand(
    tool: &dyn ToolDyn,
    call: &ToolCall,
    ctx: &ToolContext,
    times: usize,
) -> Result<(), ToolError> {
    for _ in 0..times {
        std::hint::black_box(tool.call_dyn(call.input.clone(), ctx).await?);
    }
    Ok(())
}

/// Runs `work` to its end and returns the number of allocations that it made.
///
/// # Errors
///
/// Returns an error if no runtime can be created, or if the work fails.
pub fn allocations(
    work: impl Future<Output = Result<(), ToolError>>,
) -> Result<usize, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(async {
        let before = ALLOCATOR.stats().allocations;
        work.await?;
        Ok::<_, ToolError>(ALLOCATOR.stats().allocations - before)
    })?)
}
