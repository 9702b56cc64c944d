//! Scopes of hooks, for example tracing spans, around a tool call that a durable context runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::{Outcome, Scopes};

/// The [`Scopes`] that hooks opened around a tool call. The loop passes them to a
/// [`DurableContext`](crate::DurableContext).
///
/// A durable context that runs a tool in this process wraps the tool's future in [`run`](Self::run). A hook's tracing
/// span is then current while the tool runs, and parallel calls do not mix their spans.
///
/// A durable context that takes a result from its journal does not call `run`. Hooks that count or export work
/// therefore see only the calls that really ran.
///
/// Clones share the scopes. The default contains no scopes.
///
/// # Example
///
/// ```
/// # use neuron_types::{ToolInvocation, ToolOutput, ToolError};
/// # async fn call_the_tool(_: &ToolInvocation) -> Result<ToolOutput, ToolError> { Ok(ToolOutput::text("4")) }
/// # async fn example(invocation: ToolInvocation) -> Result<ToolOutput, ToolError> {
/// invocation.scope.run(call_the_tool(&invocation)).await
/// # }
/// ```
#[derive(Clone, Default)]
pub struct CallScope(Option<Arc<Mutex<Scopes>>>);

impl CallScope {
    /// Creates a call scope from the scopes of all hooks.
    #[must_use]
    pub fn new(scopes: Scopes) -> Self {
        Self(Some(Arc::new(Mutex::new(scopes))))
    }

    /// Wraps a future. Each poll runs inside the scopes, until [`end`](Self::end) is called.
    pub fn run<F: Future>(&self, future: F) -> InCallScope<F> {
        InCallScope { scope: self.clone(), future }
    }

    /// Ends the scopes with the outcome of the call.
    pub fn end(self, outcome: Outcome<'_>) {
        let Some(scopes) = self.0 else {
            return;
        };
        // Take the scopes out, because a clone may still poll the call. Later polls then run without scopes.
        let scopes = std::mem::take(&mut *scopes.lock().unwrap_or_else(PoisonError::into_inner));
        scopes.end(outcome);
    }
}

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScope").field("is_set", &self.0.is_some()).finish()
    }
}

pin_project! {
    /// The future of [`CallScope::run`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct InCallScope<F> {
        scope: CallScope,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for InCallScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(scopes) = &this.scope.0 else {
            return this.future.poll(cx);
        };
        match scopes.try_lock() {
            Ok(mut scopes) => scopes.poll(this.future, cx),
            // An earlier poll panicked while it held the lock. The registry turned the panic into an error.
            Err(TryLockError::Poisoned(scopes)) => scopes.into_inner().poll(this.future, cx),
            // This is a nested poll. The outer poll holds the lock and is inside the scopes already.
            Err(TryLockError::WouldBlock) => this.future.poll(cx),
        }
    }
}
