//! Conversion between spans and trace contexts, with functions that the user provides.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::Span;

use crate::TraceContext;

// The user provides these functions, because only the user knows the tracing system.
type Current = dyn Fn() -> Option<TraceContext> + Send + Sync;
type SetParent = dyn Fn(&Span, &TraceContext) + Send + Sync;

/// The user's functions that convert between spans and trace contexts.
#[derive(Clone, Default)]
pub(crate) struct Propagation {
    /// The user's function that returns the trace context of the current span. `None` if the user has set none.
    current: Option<Arc<Current>>,
    /// The user's function that sets the parent of a span. The parent is a span of another process, given as a trace
    /// context. `None` if the user has set no function.
    set_parent: Option<Arc<SetParent>>,
}

impl Propagation {
    /// Sets the function that returns the trace context of the current span.
    pub(crate) fn read_with(
        &mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) {
        self.current = Some(Arc::new(current));
    }

    /// Sets the function that makes a span a child of the span in a trace context.
    pub(crate) fn write_with(
        &mut self,
        set_parent: impl Fn(&Span, &TraceContext) + Send + Sync + 'static,
    ) {
        self.set_parent = Some(Arc::new(set_parent));
    }

    /// Returns the trace context of the current span, from the user's function. Returns `None` if the user set no
    /// function, or if the function returned `None` or panicked.
    pub(crate) fn current(&self) -> Option<TraceContext> {
        let current = self.current.as_ref()?;
        survive(|| current()).flatten()
    }

    /// Makes `span` a child of `parent`, the trace context of another process. The span must not have been entered yet.
    /// Does nothing if the user set no function.
    pub(crate) fn set_parent(&self, span: &Span, parent: &TraceContext) {
        if let Some(set_parent) = &self.set_parent {
            survive(|| set_parent(span, parent));
        }
    }
}

/// Runs a function of the user. Logs a panic of the function and returns `None`, so that the request does not fail.
fn survive<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    if done.is_err() {
        tracing::error!(target: "neuron_mcp", "a function for trace contexts panicked");
    }
    done.ok()
}

impl fmt::Debug for Propagation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Propagation")
            .field("current", &self.current.is_some())
            .field("set_parent", &self.set_parent.is_some())
            .finish()
    }
}
