//! The scopes around a tool call in a durable context.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::{Outcome, Scopes};

/// The [`Scopes`] of a tool call, which the loop passes to a [`DurableContext`](crate::DurableContext). Only the
/// context knows which calls of a batch really run, and when. Clones share the scopes. The default has none.
///
/// A context that runs tools in this process runs each call inside [`run`](Self::run). A span that a hook opened is
/// then current while the tool logs, and the calls of a batch do not mix. A context that replays the call's result from
/// its journal does not use `run`. A hook that counts or exports work thereby recognises work that was not repeated.
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
    /// Creates a scope that enters these scopes while the call runs.
    #[must_use]
    pub fn new(scopes: Scopes) -> Self {
        Self(Some(Arc::new(Mutex::new(scopes))))
    }

    /// Wraps a future so that each poll runs inside the scopes, until [`end`](Self::end).
    pub fn run<F: Future>(&self, future: F) -> InCallScope<F> {
        InCallScope { scope: self.clone(), future }
    }

    /// Ends the scopes with the outcome of the call.
    pub fn end(self, outcome: Outcome<'_>) {
        let Some(scopes) = self.0 else {
            return;
        };
        // Taken instead of dropped with `self`, because a clone may still poll the call. It then
        // polls without scopes.
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
            // The tool panicked, and the registry turned the panic into an error.
            Err(TryLockError::Poisoned(scopes)) => scopes.into_inner().poll(this.future, cx),
            // Nested poll: this task is inside the scopes already.
            Err(TryLockError::WouldBlock) => this.future.poll(cx),
        }
    }
}
