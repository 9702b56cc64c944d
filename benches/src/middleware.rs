//! One tool call through so many layers of middleware that do nothing.

use neuron_tool::{Next, ToolMiddleware, ToolRegistry};
use neuron_types::{ToolCall, ToolContext, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use crate::ALLOCATOR;
use crate::turn::Echo;

/// How many layers are measured.
pub const LAYERS: [usize; 4] = [0, 1, 5, 10];

/// Middleware that does nothing, written as one would write it.
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

/// Returns a registry with one tool and so many layers.
#[must_use]
pub fn registry(layers: usize) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(std::sync::Arc::new(Echo));
    for _ in 0..layers {
        registry.add_middleware(Nothing);
    }
    registry
}

/// A call of the tool.
#[must_use]
pub fn call() -> ToolCall {
    ToolCall { id: "call".into(), name: "echo".into(), input: Value::Null }
}

/// Calls the tool so often, as a loop does.
///
/// # Errors
///
/// The tool's; it has none.
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

/// Calls the tool so often by hand: without a registry.
///
/// # Errors
///
/// The tool's; it has none.
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

/// Returns how often some work allocates.
///
/// # Errors
///
/// If there is no runtime to be had, and the work's.
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
