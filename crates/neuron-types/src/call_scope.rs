//! The scopes around a tool call that a durable context runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::{Outcome, Scopes};

/// The [`Scopes`] of a tool call that the loop hands to a [`DurableContext`](crate::DurableContext): the context
/// knows which calls of a batch really run, and when. Clones share them; the default has none.
///
/// A context that runs tools in this process runs each inside [`run`](Self::run), so that a span which a hook
/// opened is current for what the tool logs, with the calls of a batch kept apart. A context that finds the
/// call's result in its journal does not: a hook that counts or exports work sees by that what did not happen
/// again.
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
    /// Lets a durable context run a call inside scopes.
    #[must_use]
    pub fn new(scopes: Scopes) -> Self {
        Self(Some(Arc::new(Mutex::new(scopes))))
    }

    /// Runs a future so that each of its polls is inside the scopes, until they are [ended](Self::end).
    pub fn run<F: Future>(&self, future: F) -> InCallScope<F> {
        InCallScope { scope: self.clone(), future }
    }

    /// Tells the scopes how the call ended.
    pub fn end(self, outcome: Outcome<'_>) {
        let Some(scopes) = self.0 else {
            return;
        };
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
            // A panic inside the tool, which the registry made an error of.
            Err(TryLockError::Poisoned(scopes)) => scopes.into_inner().poll(this.future, cx),
            // Within the scopes already.
            Err(TryLockError::WouldBlock) => this.future.poll(cx),
        }
    }
}
