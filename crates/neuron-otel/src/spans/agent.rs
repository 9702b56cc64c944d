//! The spans of runs.

use std::sync::Arc;

use neuron_types::{DurableError, HookScope, LoopError, OperationScope, Outcome, RequestRef};
use opentelemetry::KeyValue;
use tracing::Span;
use tracing::field::Empty;

use crate::config::Config;
use crate::metrics::Attributes;
use crate::record::{Record, UsageDetails};
use crate::run_state::RunState;
use crate::span_parent::unless_unsampled;
use crate::span_scope::{Ending, Polls};
use crate::spans::{known, provider_name, request as request_attributes};
use crate::{ContentKind, content, conventions};

/// The scope of a run, which records its span and its metrics.
pub(crate) struct RunScope {
    config: Arc<Config>,
    state: Arc<RunState>,
    name: String,
    provider: String,
    model: String,
    has_ended: bool,
    polls: Polls,
}

/// Begins a run. A durable run may first replay earlier work from its journal. The span of such a run begins with the
/// first new work. Returns `None` if neither a span nor metrics would be recorded.
pub(crate) fn open(
    config: &Arc<Config>,
    scope: &HookScope<'_>,
    session_id: &str,
    request: &RequestRef<'_>,
) -> Option<RunScope> {
    let model = known(request.model).unwrap_or(scope.model);
    let state = if scope.replaying {
        let (config_then, outer) = (config.clone(), Span::current());
        let (name, provider, model) =
            (scope.agent.to_owned(), scope.provider.to_owned(), model.to_owned());
        let session = session_id.to_owned();
        // The conversation is omitted, because the span of a resumed run has no content.
        let settings = RequestRef { messages: &[], system: None, tools: &[], ..*request };
        let settings = settings.to_request();
        RunState::replaying(config.clone(), scope.agent, session_id, move || {
            let config = &config_then;
            outer.in_scope(|| {
                let make = || begin(config, &name, &provider, &model, &session, true);
                let span = unless_unsampled(config, make);
                if let Some(record) = Record::of(&span).filter(Record::is_recorded) {
                    request_attributes::settings(&record, &settings.view());
                }
                span
            })
        })
    } else {
        let span = unless_unsampled(config, || {
            begin(config, scope.agent, scope.provider, model, session_id, false)
        });
        if let Some(record) = Record::of(&span).filter(Record::is_recorded) {
            request_attributes::settings(&record, request);
            request_attributes::content(&record, None, request, config);
        }
        // Neither a span nor metrics would be recorded.
        if span.is_disabled() && !config.instruments.is_enabled() {
            return None;
        }
        RunState::begun_with(config.clone(), scope.agent, session_id, span)
    };
    Some(RunScope {
        config: config.clone(),
        state,
        name: scope.agent.to_owned(),
        provider: scope.provider.to_owned(),
        model: model.to_owned(),
        has_ended: false,
        polls: Polls::default(),
    })
}

/// Creates the span of a run, with the attributes that a sampler may need for its decision. Other attributes are
/// recorded later.
fn begin(
    config: &Config,
    name: &str,
    provider: &str,
    model: &str,
    session_id: &str,
    is_resumed: bool,
) -> Span {
    let conventions = config.conventions;
    let provider = Some(provider_name(provider));
    tracing::info_span!(
        target: "neuron_otel",
        "invoke_agent",
        otel.name = conventions.span_name("invoke_agent", name),
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name =
            provider.filter(|_| !conventions.is_latest() && !conventions.is_book()),
        gen_ai.system = provider.filter(|_| conventions.is_book()),
        gen_ai.agent.name = known(name),
        gen_ai.request.model = known(model),
        gen_ai.conversation.id = known(session_id),
        neuron.run.resumed = is_resumed.then_some(true),
        gen_ai.request.max_tokens = Empty,
        gen_ai.request.temperature = Empty,
        gen_ai.request.top_p = Empty,
        gen_ai.request.stop_sequences = Empty,
        gen_ai.request.frequency_penalty = Empty,
        gen_ai.request.presence_penalty = Empty,
        gen_ai.request.seed = Empty,
        gen_ai.request.choice.count = Empty,
        gen_ai.output.r#type = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.response.stop_reason = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        neuron.usage.cost = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
    )
}

impl OperationScope for RunScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.polls.around(|| self.state.around(poll));
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.conclude(&Ending::Outcome(outcome));
    }
}

impl Drop for RunScope {
    fn drop(&mut self) {
        if !self.has_ended {
            self.conclude(&self.polls.dropped());
        }
    }
}

impl RunScope {
    /// Ends the span of the run and records its metrics.
    fn conclude(&mut self, ending: &Ending<'_>) {
        self.has_ended = true;
        // The last poll of an abandoned run may be long ago, but its turn ends now.
        if ending.is_abandoned() {
            self.state.extend_turn();
        }
        self.state.end_turn();
        // The run may still be replaying, but no earlier attempt ended with this error. The error is new, so the run
        // gets a span.
        if let Ending::Outcome(Outcome::Error(error)) = ending
            && let Some(LoopError::Durable(DurableError::NonDeterminism { .. })) =
                error.downcast_ref()
        {
            self.state.span();
        }
        let Some((span, began)) = self.state.begun() else {
            // The run only replayed earlier work, so there is nothing to record.
            return;
        };
        let ended = self.polls.ended(ending, span);
        let failure = ending.failure(self.config.captures_error_texts());
        if let Some(record) = Record::of(span).filter(Record::is_recorded) {
            if let Some(failure) = &failure {
                record.failure(failure);
            }
            if let Ending::Outcome(Outcome::Run(result)) = ending {
                self.record(&record, result);
            }
        }
        let Some(instruments) = self.config.instruments.get(self.config.conventions) else {
            return;
        };
        let seconds = ended.saturating_duration_since(began).as_secs_f64();
        instruments.agent(seconds, self.state.calls(), failure.as_ref(), self.attributes());
    }

    /// Records the result of the run on its span.
    fn record(&self, record: &Record<'_>, result: &neuron_types::AgentResult) {
        let conventions = self.config.conventions;
        if conventions.is_book() {
            let reason = conventions::stop_reason(&result.stop_reason);
            record.text("gen_ai.response.stop_reason", reason);
        } else {
            let reason = conventions::finish_reason(&result.stop_reason);
            record.texts("gen_ai.response.finish_reasons", [reason]);
        }
        let parts = if conventions.is_latest() { UsageDetails::None } else { UsageDetails::Cache };
        record.usage(&result.usage, conventions, parts);
        if self.config.captures_in_spans() {
            let reason = conventions.finish_reason_in_response(&result.stop_reason);
            let value = content::run_output(&result.response, reason);
            if let Some(text) = self.config.content.captured(ContentKind::OutputMessages, value) {
                record.text("gen_ai.output.messages", &text);
            }
        }
    }

    /// Returns the attributes of the run's metrics.
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::with_capacity(5);
        if let Some(name) = known(&self.name) {
            attributes.push(KeyValue::new("gen_ai.agent.name", name.to_owned()));
        }
        // In the latest conventions, runs have separate metrics, which do not need the operation's name.
        if !self.config.conventions.is_latest() {
            attributes.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
            let provider = provider_name(&self.provider);
            attributes.push(KeyValue::new("gen_ai.provider.name", provider.to_owned()));
        }
        if let Some(model) = known(&self.model) {
            attributes.push(KeyValue::new("gen_ai.request.model", model.to_owned()));
        }
        attributes
    }
}
