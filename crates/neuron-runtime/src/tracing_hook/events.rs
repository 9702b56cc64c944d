//! The log line of each event of a run, with its name, level and fields.

use neuron_types::{
    AgentResult, CompletionResponse, HookEvent, HookScope, LoopError, Message, RequestRef,
    ToolOutput,
};

use super::{TracingHook, errors};

/// Records an event of the run as a tracing event and as a span that is closed immediately. The span is omitted if the
/// hook is `events_only`. Both contain the given fields, and the run id, agent and replay flag from the `HookScope`.
macro_rules! tell {
    ($hook:expr, $level:ident, $name:literal, $scope:expr, { $($fields:tt)* }) => {{
        let scope: &HookScope<'_> = $scope;
        let (run_id, agent) = (told(scope.run_id), told(scope.agent));
        let replaying = scope.replaying.then_some(true);
        if !$hook.events_only {
            // Dropping the span closes it immediately.
            drop(tracing::span!(
                target: "neuron_runtime",
                tracing::Level::$level,
                $name,
                run_id,
                agent,
                replaying,
                $($fields)*
            ));
        }
        tracing::event!(
            name: $name,
            target: "neuron_runtime",
            tracing::Level::$level,
            { run_id, agent, replaying, $($fields)* },
            $name
        );
    }};
}

impl TracingHook {
    pub(super) fn tell(&self, event: HookEvent<'_>, scope: &HookScope<'_>) {
        match event {
            HookEvent::SessionStart { session_id } => {
                tell!(self, INFO, "neuron.session.start", scope, { session_id = told(session_id) });
            }
            HookEvent::SessionEnd { session_id } => {
                tell!(self, INFO, "neuron.session.end", scope, { session_id = told(session_id) });
            }
            HookEvent::RunStart { run_id } => {
                // The scope is empty if the event came through `on_event`, so the run id is taken from the event.
                let mut scope = *scope;
                scope.run_id = run_id;
                let (provider, model) = (told(scope.provider), told(scope.model));
                let within_run = scope.within.map(|call| call.run_id);
                let within_call = scope.within.map(|call| call.call_id);
                tell!(self, DEBUG, "neuron.run.start", &scope, {
                    provider, model, within_run, within_call
                });
            }
            HookEvent::RunEnd { result: Ok(result) } => self.tell_result(result, scope),
            HookEvent::RunEnd { result: Err(error) } => self.tell_failed_run(error, scope),
            HookEvent::LoopIteration { turn } => {
                tell!(self, DEBUG, "neuron.loop.iteration", scope, { turn });
            }
            HookEvent::PreLlmCall { request } => self.tell_request(request, scope),
            HookEvent::FirstChunk => {
                let (turn, duration_ms) = (scope.turn, self.clocks.since_start(scope));
                tell!(self, DEBUG, "neuron.llm.first_chunk", scope, { turn, duration_ms });
            }
            HookEvent::PostLlmCall { response } => self.tell_response(response, scope),
            HookEvent::LlmError { error } => {
                let (turn, duration_ms) = (scope.turn, self.clocks.stop(scope));
                let (provider, model) = (told(scope.provider), told(scope.model));
                let (error_kind, error) = (errors::kind(error), self.error_text(error));
                tell!(self, WARN, "neuron.llm.error", scope, {
                    turn, provider, model, error_kind, error, duration_ms
                });
            }
            HookEvent::PreToolExecution { tool_name, input } => {
                self.clocks.start(scope);
                let (turn, call_id) = (scope.turn, scope.call_id);
                let arguments = self.text(|| input.to_string());
                tell!(self, DEBUG, "neuron.tool.pre_execution", scope, {
                    turn, call_id, tool = tool_name, arguments
                });
            }
            HookEvent::PostToolExecution { tool_name, output } => {
                self.tell_output(tool_name, output, scope);
            }
            HookEvent::ToolError { tool_name, error } => {
                self.tell_failed_tool(tool_name, error, scope);
            }
            HookEvent::ContextCompaction { old_tokens, new_tokens } => {
                let turn = scope.turn;
                tell!(self, INFO, "neuron.context.compaction", scope, {
                    turn, old_tokens, new_tokens
                });
            }
            // `HookEvent` is non-exhaustive. Events that this hook does not know are not recorded.
            _ => {}
        }
    }

    fn tell_result(&self, result: &AgentResult, scope: &HookScope<'_>) {
        let AgentResult { turns, usage, stop_reason, limit_reached, .. } = result;
        tell!(self, INFO, "neuron.run.end", scope, {
            turns,
            ?stop_reason,
            limit_reached = limit_reached.as_deref(),
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            cost = usage.cost.map(tracing::field::display),
            duration_ms = self.clocks.since_run(scope.run_id)
        });
    }

    fn tell_failed_run(&self, error: &LoopError, scope: &HookScope<'_>) {
        let (turn, duration_ms) = (scope.turn, self.clocks.since_run(scope.run_id));
        let (error_kind, text) = (errors::kind(error), self.error_text(error));
        match error {
            // A run that waits for an approval has not failed.
            error if error.is_waiting() => {
                tell!(self, INFO, "neuron.run.end", scope, {
                    turn, error_kind, error = text, duration_ms
                });
            }
            LoopError::Cancelled => {
                tell!(self, WARN, "neuron.run.end", scope, {
                    turn, error_kind, error = text, duration_ms
                });
            }
            _ => {
                tell!(self, ERROR, "neuron.run.end", scope, {
                    turn, error_kind, error = text, duration_ms
                });
            }
        }
    }

    pub(super) fn tell_dropped_run(&self, run_id: &str, agent: &str) {
        let mut scope = HookScope::new(run_id, 0, "", "");
        scope.agent = agent;
        let duration_ms = self.clocks.since_run(run_id);
        tell!(self, INFO, "neuron.run.dropped", &scope, { duration_ms });
    }

    fn tell_request(&self, request: &RequestRef<'_>, scope: &HookScope<'_>) {
        self.clocks.start(scope);
        let (turn, provider) = (scope.turn, told(scope.provider));
        // The request of one turn may name another model than the run.
        let model = told(request.model).or(told(scope.model));
        let prompt = self.text(|| request.messages.last().map(message_text).unwrap_or_default());
        tell!(self, DEBUG, "neuron.llm.pre_call", scope, {
            turn,
            provider,
            model,
            messages = request.messages.len(),
            tools = request.tools.len(),
            prompt
        });
    }

    fn tell_response(&self, response: &CompletionResponse, scope: &HookScope<'_>) {
        let (turn, duration_ms) = (scope.turn, self.clocks.stop(scope));
        let (provider, model) = (told(scope.provider), told(&response.model).or(told(scope.model)));
        let CompletionResponse { usage, stop_reason, message, .. } = response;
        let answer = self.text(|| message_text(message));
        tell!(self, DEBUG, "neuron.llm.post_call", scope, {
            turn,
            provider,
            model,
            response_id = told(&response.id),
            ?stop_reason,
            tool_calls = message.tool_uses().count(),
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            cache_read_tokens = usage.cache_read_tokens,
            cache_creation_tokens = usage.cache_creation_tokens,
            reasoning_tokens = usage.reasoning_tokens,
            cost = usage.cost.map(tracing::field::display),
            duration_ms,
            answer
        });
    }

    fn tell_output(&self, tool: &str, output: &ToolOutput, scope: &HookScope<'_>) {
        let (turn, call_id) = (scope.turn, scope.call_id);
        let (is_error, duration_ms) = (output.is_error, self.clocks.stop(scope));
        let result = self.text(|| output.content.iter().map(ToString::to_string).collect());
        tell!(self, DEBUG, "neuron.tool.post_execution", scope, {
            turn, call_id, tool, is_error, duration_ms, result
        });
    }

    fn tell_failed_tool(&self, tool: &str, error: &LoopError, scope: &HookScope<'_>) {
        let (turn, call_id, duration_ms) = (scope.turn, scope.call_id, self.clocks.stop(scope));
        let (error_kind, text) = (errors::kind(error), self.error_text(error));
        match error.is_waiting() {
            true => tell!(self, DEBUG, "neuron.tool.error", scope, {
                turn, call_id, tool, error_kind, error = text, duration_ms
            }),
            false => tell!(self, WARN, "neuron.tool.error", scope, {
                turn, call_id, tool, error_kind, error = text, duration_ms
            }),
        }
    }

    /// Returns the text of an error. If the text may quote the conversation, it is cut to the hook's limit, and is
    /// `None` if texts are not recorded.
    pub(super) fn error_text(&self, error: &LoopError) -> Option<String> {
        match error.may_quote_conversation() {
            true => self.text(|| error.to_string()),
            false => Some(error.to_string()),
        }
    }
}

/// Returns `None` if a text is empty, so that its field is left out.
pub(super) fn told(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the texts of all blocks of a message, one block per line. A block without text is described in a few words.
fn message_text(message: &Message) -> String {
    message.content.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
