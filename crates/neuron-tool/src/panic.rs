//! Conversion of panics in tools and middleware into error results.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use neuron_types::{ToolError, ToolOutput, WasmBoxedFuture};

/// Creates and polls the future of a call. Converts a panic to an error result for the model.
///
/// The panic message is logged but not sent to the model, because it is meant for developers and may contain secrets.
/// On targets where a panic aborts the process, such as wasm, panics are not caught.
pub(crate) async fn catch<'a>(
    tool: &str,
    start: impl FnOnce() -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>,
) -> Result<ToolOutput, ToolError> {
    // `AssertUnwindSafe` is justified because the future is never polled again after a panic. A tool must itself keep
    // state consistent that its calls share, as with threads.
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

/// Logs a panic and returns the error result of the call.
fn output(tool: &str, panic: &(dyn Any + Send)) -> ToolOutput {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    // Log without a parent span. An exporter of spans also exports their log events, and the panic message may contain
    // secrets.
    tracing::error!(parent: None, tool, panic = message, "a tool panicked; the model is told that the call failed");
    panic_output(tool)
}

/// Returns the error result of a call whose tool panicked. Its text states that the effect of the call is unknown.
#[must_use]
pub fn panic_output(tool: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{tool}` failed unexpectedly; whether the call took effect is unknown"
    ))
}
