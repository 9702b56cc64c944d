//! Propagation of trace contexts between spans and requests, by functions of the user.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::Span;

use crate::TraceContext;

type Current = dyn Fn() -> Option<TraceContext> + Send + Sync;
type SetParent = dyn Fn(&Span, &TraceContext) + Send + Sync;

/// Functions of the user, who knows the tracing system, that convert between spans and trace contexts.
#[derive(Clone, Default)]
pub(crate) struct Propagation {
    current: Option<Arc<Current>>,
    set_parent: Option<Arc<SetParent>>,
}

impl Propagation {
    pub(crate) fn read_with(
        &mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) {
        self.current = Some(Arc::new(current));
    }

    pub(crate) fn write_with(
        &mut self,
        set_parent: impl Fn(&Span, &TraceContext) + Send + Sync + 'static,
    ) {
        self.set_parent = Some(Arc::new(set_parent));
    }

    /// Returns the trace context of the current span.
    pub(crate) fn current(&self) -> Option<TraceContext> {
        let current = self.current.as_ref()?;
        survive(|| current()).flatten()
    }

    /// Puts a span, which was not entered yet, below a span of another process.
    pub(crate) fn set_parent(&self, span: &Span, parent: &TraceContext) {
        if let Some(set_parent) = &self.set_parent {
            survive(|| set_parent(span, parent));
        }
    }
}

/// Tracing that fails must not leave a request without an answer.
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
