//! A panic in a tool, or in middleware around it, ends that call alone.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use neuron_types::{ToolError, ToolOutput, WasmBoxedFuture};

/// Runs a part of a call; a panic in it becomes an error for the model.
///
/// The model is not told what the panic said: that is written for developers and may quote anything.
/// It is logged. Where panics abort, as on wasm, they still do.
pub(crate) async fn caught<'a>(
    tool: &str,
    start: impl FnOnce() -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>,
) -> Result<ToolOutput, ToolError> {
    // What is inside is dropped after a panic and never used again; what a tool shares with its
    // other calls is its own concern, as it is with threads.
    let mut work = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(work) => work,
        Err(panic) => return Ok(output(tool, &*panic)),
    };
    poll_fn(move |cx| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(cx));
        catch_unwind(poll).unwrap_or_else(|panic| Poll::Ready(Ok(output(tool, &*panic))))
    })
    .await
}

fn output(tool: &str, panic: &(dyn Any + Send)) -> ToolOutput {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    // Of no span: whoever exports spans exports what is logged within them.
    tracing::error!(parent: None, tool, panic = message, "a tool panicked; the model is told that the call failed");
    panic_output(tool)
}

/// Returns the result of a call whose tool panicked: an error for the model. It is unknown whether the call took effect.
#[must_use]
pub fn panic_output(tool: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{tool}` failed unexpectedly; whether the call took effect is unknown"
    ))
}
