//! The spans around a run, its model calls, its tool calls and its compactions.

use neuron_types::{LoopError, Operation, OperationKind, OperationScope, Outcome, TokenUsage};
use tracing::Span;
use tracing::field::Empty;

use super::events::told;
use super::{TracingHook, errors};

impl TracingHook {
    pub(super) fn open_span(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let scope = &operation.scope;
        let (turn, run_id) = (scope.turn, told(scope.run_id));
        let (provider, model) = (told(scope.provider), told(scope.model));
        let replaying = scope.replaying.then_some(true);
        let span = match operation.kind {
            OperationKind::Run { session_id, .. } => {
                self.clocks.open_run(scope.run_id);
                let span = tracing::info_span!(
                    target: "neuron_runtime",
                    "neuron.run",
                    run_id,
                    agent = told(scope.agent),
                    session_id = told(session_id),
                    within_run = scope.within.map(|call| call.run_id),
                    within_call = scope.within.map(|call| call.call_id),
                    replaying,
                    outcome = Empty,
                    turns = Empty,
                    stop_reason = Empty,
                    input_tokens = Empty,
                    output_tokens = Empty,
                cost = Empty,
                    error_kind = Empty,
                    error = Empty,
                );
                let (run_id, agent) = (scope.run_id.to_owned(), scope.agent.to_owned());
                // The scope is needed even if the span is disabled, because its drop removes the run from the clocks.
                return Some(Box::new(RunScope {
                    spanned: Spanned::new(span, self),
                    run_id,
                    agent,
                }));
            }
            OperationKind::ModelCall { request, streaming } => tracing::debug_span!(
                target: "neuron_runtime",
                "neuron.llm.call",
                turn,
                provider,
                model = told(request.model).or(model),
                streaming,
                replaying,
                outcome = Empty,
                stop_reason = Empty,
                input_tokens = Empty,
                output_tokens = Empty,
                cost = Empty,
                error_kind = Empty,
                error = Empty,
            ),
            OperationKind::ToolCall { call, .. } => tracing::debug_span!(
                target: "neuron_runtime",
                "neuron.tool.call",
                turn,
                call_id = call.id,
                tool = call.name,
                replaying,
                outcome = Empty,
                is_error = Empty,
                error_kind = Empty,
                error = Empty,
            ),
            OperationKind::Compaction { old_tokens } => tracing::debug_span!(
                target: "neuron_runtime",
                "neuron.context.compact",
                turn,
                old_tokens,
                replaying,
                outcome = Empty,
                new_tokens = Empty,
                error_kind = Empty,
                error = Empty,
            ),
            _ => return None,
        };
        match span.is_disabled() {
            true => None,
            false => Some(Box::new(Spanned::new(span, self))),
        }
    }
}

/// The span around one operation of a run. Dropping it before the operation ended records the outcome `dropped`.
struct Spanned {
    span: Span,
    /// The hook, whose settings decide whether an error's text is recorded.
    hook: TracingHook,
    /// Set once the outcome of the operation was recorded.
    has_ended: bool,
}

impl Spanned {
    fn new(span: Span, hook: &TracingHook) -> Self {
        Self { span, hook: hook.clone(), has_ended: false }
    }

    /// Records the outcome of the operation, with its token counts or its error, in the fields of the span.
    fn record(&mut self, outcome: Outcome<'_>) {
        self.has_ended = true;
        let span = &self.span;
        match outcome {
            Outcome::Run(result) => {
                span.record("turns", result.turns);
                span.record("stop_reason", tracing::field::debug(&result.stop_reason));
                record_usage(span, &result.usage);
            }
            Outcome::Response(response) => {
                span.record("stop_reason", tracing::field::debug(&response.stop_reason));
                record_usage(span, &response.usage);
            }
            Outcome::ToolOutput(output) => {
                span.record("is_error", output.is_error);
            }
            Outcome::Compacted { new_tokens } => {
                span.record("new_tokens", new_tokens);
            }
            Outcome::Error(error) => {
                span.record("outcome", "error");
                if let Some(error) = error.downcast_ref::<LoopError>() {
                    span.record("outcome", errors::outcome(error));
                    span.record("error_kind", errors::kind(error));
                    if let Some(text) = self.hook.error_text(error) {
                        span.record("error", text);
                    }
                }
                return;
            }
            _ => {}
        }
        span.record("outcome", "ok");
    }
}

fn record_usage(span: &Span, usage: &TokenUsage) {
    span.record("input_tokens", usage.input_tokens);
    span.record("output_tokens", usage.output_tokens);
    if let Some(cost) = usage.cost {
        span.record("cost", tracing::field::display(cost));
    }
}

impl OperationScope for Spanned {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.span.in_scope(poll);
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.record(outcome);
    }
}

impl Drop for Spanned {
    fn drop(&mut self) {
        if !self.has_ended {
            self.span.record("outcome", "dropped");
        }
    }
}

/// The span of a run. Dropping it removes the start times of the run. If the run did not end, dropping it also records
/// the event `neuron.run.dropped`.
struct RunScope {
    spanned: Spanned,
    run_id: String,
    agent: String,
}

impl OperationScope for RunScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.spanned.around(poll);
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.spanned.record(outcome);
    }
}

impl Drop for RunScope {
    fn drop(&mut self) {
        let Spanned { span, hook, has_ended } = &self.spanned;
        if !has_ended {
            span.in_scope(|| hook.tell_dropped_run(&self.run_id, &self.agent));
        }
        // After the event, which contains the duration of the run.
        hook.clocks.close_run(&self.run_id);
    }
}
