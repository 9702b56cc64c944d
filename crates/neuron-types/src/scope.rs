//! Scopes around operations: what makes a tracing span current while the work runs.

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
    /// Where in the run it happens.
    pub scope: HookScope<'a>,
    /// What it is.
    pub kind: OperationKind<'a>,
}

impl<'a> Operation<'a> {
    /// Describes an operation.
    #[must_use]
    pub fn new(scope: HookScope<'a>, kind: OperationKind<'a>) -> Self {
        Self { scope, kind }
    }
}

/// What an [`Operation`] is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum OperationKind<'a> {
    /// A whole run.
    Run {
        /// [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
        /// The conversation and the settings with which the run starts. What `prepare_turn` changes for
        /// a turn, its model calls tell.
        request: &'a RequestRef<'a>,
    },
    /// A call of the model, up to the end of its answer.
    ModelCall {
        /// What it is asked.
        request: &'a RequestRef<'a>,
        /// Whether the answer is streamed.
        streaming: bool,
    },
    /// A tool call.
    ToolCall {
        /// The call.
        call: &'a ToolCall,
        /// The tools that the model was offered.
        offered: &'a [ToolDefinition],
    },
    /// A compaction of the history.
    Compaction {
        /// The estimate before it.
        old_tokens: usize,
    },
}

/// How an [`Operation`] ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// A run gave its result.
    Run(&'a AgentResult),
    /// The model answered.
    Response(&'a CompletionResponse),
    /// A tool gave its result.
    ToolOutput(&'a ToolOutput),
    /// The history was compacted.
    Compacted {
        /// The estimate after it.
        new_tokens: usize,
    },
    /// It failed or was cancelled.
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

/// What a hook keeps around one operation.
///
/// Every poll of the operation's future runs inside [`around`](Self::around), so that a tracing
/// span entered there is current for whatever the tool or the HTTP client logs, and parallel tools
/// stay apart. A callback rather than a guard, because the guards of tracing and OpenTelemetry
/// cannot be kept between polls.
///
/// # Contract
///
/// - `around` calls `poll` once. The operation goes on even if it does not.
/// - [`end`](Self::end) is called once when the operation ends. A scope that is dropped without it
///   belongs to an operation that was dropped.
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
    /// Runs one poll of the operation.
    fn around(&mut self, poll: &mut dyn FnMut());

    /// Learns how the operation ended. Provided: does nothing.
    fn end(self: Box<Self>, _outcome: Outcome<'_>) {}
}

/// The scopes that all hooks opened around one operation, the first hook's outermost.
#[derive(Default)]
pub struct Scopes(Vec<Box<dyn OperationScope>>);

impl Scopes {
    /// Asks every hook for a scope.
    pub fn open<H: ObservabilityHook>(hooks: &[H], operation: &Operation<'_>) -> Self {
        Self(hooks.iter().filter_map(|hook| hook.scope(operation)).collect())
    }

    /// Runs a future so that each of its polls is inside all scopes.
    ///
    /// Can be called several times, for an operation in several parts.
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

    /// Tells every scope how the operation ended, innermost first.
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

fn poll_inside<F: Future>(
    scopes: &mut [Box<dyn OperationScope>],
    mut future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    let mut polled = None;
    nest(scopes, &mut || {
        if polled.is_none() {
            polled = Some(future.as_mut().poll(cx));
        }
    });
    match polled {
        Some(poll) => poll,
        // A scope that forgot to call must not stop the work.
        None => future.poll(cx),
    }
}

fn nest(scopes: &mut [Box<dyn OperationScope>], poll: &mut dyn FnMut()) {
    match scopes {
        [] => poll(),
        [outermost, rest @ ..] => outermost.around(&mut || nest(rest, poll)),
    }
}
