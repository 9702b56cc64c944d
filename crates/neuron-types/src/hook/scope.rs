//! Scopes of hooks around operations. A scope can, for example, make a tracing span current during the operation.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::{
    AgentResult, CompletionResponse, HookScope, LoopError, ObservabilityHook, RequestRef, ToolCall,
    ToolDefinition, ToolOutput, WasmCompatSend,
};

/// An operation around which a hook may open an [`OperationScope`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// The position of the operation in the run.
    pub scope: HookScope<'a>,
    /// The kind of the operation.
    pub kind: OperationKind<'a>,
}

impl<'a> Operation<'a> {
    /// Creates the description of an operation from its parts.
    #[must_use]
    pub fn new(scope: HookScope<'a>, kind: OperationKind<'a>) -> Self {
        Self { scope, kind }
    }
}

/// The kind of an [`Operation`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum OperationKind<'a> {
    /// A whole run.
    Run {
        /// Id of the session, from [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
        /// The conversation and the settings with which the run starts. Changes by a layer such as
        /// [`PrepareTurn`](crate::PrepareTurn) are not included.
        request: &'a RequestRef<'a>,
    },
    /// A model call. The operation ends when the response is complete.
    ModelCall {
        /// The request to the model.
        request: &'a RequestRef<'a>,
        /// Set if the response is streamed.
        streaming: bool,
    },
    /// A tool call.
    ToolCall {
        /// The tool call.
        call: &'a ToolCall,
        /// The tools of the agent that are in its requests. For a call of a deferred tool, only this tool.
        offered: &'a [ToolDefinition],
    },
    /// A compaction of the history.
    Compaction {
        /// Estimated tokens before the compaction.
        old_tokens: usize,
    },
}

/// The outcome of an [`Operation`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// The result of a run.
    Run(&'a AgentResult),
    /// The response of a model.
    Response(&'a CompletionResponse),
    /// The result of a tool.
    ToolOutput(&'a ToolOutput),
    /// The history was compacted.
    Compacted {
        /// Estimated tokens after the compaction.
        new_tokens: usize,
    },
    /// The operation failed or was cancelled.
    Error(&'a (dyn Error + 'static)),
}

impl<'a> From<&'a Result<ToolOutput, LoopError>> for Outcome<'a> {
    fn from(ended: &'a Result<ToolOutput, LoopError>) -> Self {
        ended.as_ref().map_or_else(|error| Self::Error(error), Self::ToolOutput)
    }
}

impl<'a> From<&'a Result<CompletionResponse, LoopError>> for Outcome<'a> {
    fn from(ended: &'a Result<CompletionResponse, LoopError>) -> Self {
        ended.as_ref().map_or_else(|error| Self::Error(error), Self::Response)
    }
}

/// A hook's scope around one operation.
///
/// Every poll of the operation's future runs inside [`around`](Self::around). If `around` enters a tracing span, the
/// span is current while the tool or the HTTP client runs, and parallel tools do not mix their spans. `around` takes a
/// callback, because the guards of tracing and OpenTelemetry must not be kept between polls.
///
/// # Contract
///
/// - `around` calls `poll` exactly once. If it does not call `poll`, the operation is polled without the scope.
/// - [`end`](Self::end) is called once when the operation ends. If the operation's future is dropped, the scope is
///   dropped without a call of `end`.
///
/// # Example
///
/// ```
/// use neuron_types::{OperationScope, Outcome};
///
/// struct SpanScope(tracing::Span);
///
/// impl OperationScope for SpanScope {
///     fn around(&mut self, poll: &mut dyn FnMut()) {
///         self.0.in_scope(poll)
///     }
///
///     fn end(self: Box<Self>, outcome: Outcome<'_>) {
///         if let Outcome::Error(error) = outcome {
///             self.0.in_scope(|| tracing::error!(%error));
///         }
///     }
/// }
/// ```
pub trait OperationScope: WasmCompatSend {
    /// Runs one poll of the operation by calling `poll`.
    fn around(&mut self, poll: &mut dyn FnMut());

    /// Called with the outcome when the operation ends. The default does nothing.
    fn end(self: Box<Self>, _outcome: Outcome<'_>) {}
}

/// The scopes of all hooks around one operation. The scope of the first hook is outermost.
#[derive(Default)]
pub struct Scopes(Vec<Box<dyn OperationScope>>);

impl Scopes {
    /// Opens the scopes of `hooks` for an operation. Hooks without a scope are skipped.
    pub fn open<H: ObservabilityHook>(hooks: &[H], operation: &Operation<'_>) -> Self {
        Self(hooks.iter().filter_map(|hook| hook.scope(operation)).collect())
    }

    /// Wraps a future, so that each of its polls runs inside all scopes.
    ///
    /// For an operation that consists of several futures, call this method for each future.
    pub fn run<F: Future>(&mut self, future: F) -> InScopes<'_, F> {
        InScopes { scopes: &mut self.0, future }
    }

    /// Polls a future once inside all scopes.
    pub(crate) fn poll<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        poll_inside(&mut self.0, future, cx)
    }

    /// Ends all scopes with the outcome, innermost first.
    pub fn end(self, outcome: Outcome<'_>) {
        for scope in self.0.into_iter().rev() {
            scope.end(outcome);
        }
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scopes").field("len", &self.0.len()).finish()
    }
}

pin_project! {
    /// The future of [`Scopes::run`].
    #[must_use = "futures do nothing unless polled"]
    pub struct InScopes<'s, F> {
        scopes: &'s mut [Box<dyn OperationScope>],
        #[pin]
        future: F,
    }
}

impl<F> fmt::Debug for InScopes<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InScopes").field("scopes", &self.scopes.len()).finish_non_exhaustive()
    }
}

impl<F: Future> Future for InScopes<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        poll_inside(this.scopes, this.future, cx)
    }
}

/// Polls a future once inside all scopes.
fn poll_inside<F: Future>(
    scopes: &mut [Box<dyn OperationScope>],
    mut future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    // Most runs have no scopes, and the path below moves the result several times.
    if scopes.is_empty() {
        return future.poll(cx);
    }
    let mut polled = None;
    nest(scopes, &mut || {
        // A scope may call `poll` twice, but a future must not be polled again after it is ready.
        if polled.is_none() {
            polled = Some(future.as_mut().poll(cx));
        }
    });
    match polled {
        Some(poll) => poll,
        // A faulty scope that does not call `poll` must not stop the work.
        None => future.poll(cx),
    }
}

/// Calls `poll` once inside the [`around`](OperationScope::around) methods of all scopes, the first scope outermost.
fn nest(scopes: &mut [Box<dyn OperationScope>], poll: &mut dyn FnMut()) {
    match scopes {
        [] => poll(),
        [outermost, rest @ ..] => outermost.around(&mut || nest(rest, poll)),
    }
}
