//! The spans of model calls.

use std::sync::Arc;

use neuron_types::{AnswerRoute, CompletionResponse, HookScope, Outcome, RequestRef};
use opentelemetry::KeyValue;
use tracing::Span;
use tracing::field::Empty;

use crate::config::Config;
use crate::failure::Failure;
use crate::metrics::Attributes;
use crate::record::{Record, UsageDetails};
use crate::run_state::{Activity, Kind, RunState};
use crate::span_parent::of_run;
use crate::span_scope::{Ending, Recorder, SpanScope};
use crate::spans::{known, provider_name, request as request_attributes};
use crate::{ContentKind, SemanticConventions, content, conventions};

/// The provider, the model and the server of a model call. An empty text means that the value is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallTarget<'a> {
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) server_address: &'a str,
    pub(crate) server_port: Option<u16>,
    /// Session id of the run.
    pub(crate) conversation: &'a str,
    /// Set if the provider is a router. The provider and the model are then only its first choice.
    pub(crate) is_routed: bool,
}

impl<'a> CallTarget<'a> {
    pub(crate) fn of(scope: &HookScope<'a>, conversation: &'a str) -> Self {
        Self {
            provider: scope.provider,
            model: scope.model,
            server_address: scope.server_address,
            server_port: scope.server_port,
            conversation,
            is_routed: scope.routed,
        }
    }

    /// Returns the value of `gen_ai.provider.name`, which the conventions require.
    pub(crate) fn provider_name(&self) -> &'a str {
        provider_name(self.provider)
    }

    /// Returns the attributes that all metrics of the call have. The names of a routed call are added at its end.
    pub(crate) fn attributes(&self, operation: &'static str) -> Attributes {
        let mut attributes = Attributes::with_capacity(8);
        attributes.push(KeyValue::new("gen_ai.operation.name", operation));
        if !self.is_routed {
            push_names(&mut attributes, self.provider, self.model);
        }
        if let Some(address) = known(self.server_address) {
            attributes.push(KeyValue::new("server.address", address.to_owned()));
            if let Some(port) = self.server_port {
                attributes.push(KeyValue::new("server.port", i64::from(port)));
            }
        }
        attributes
    }
}

/// Adds the names of a provider and a model to the attributes of a call's metrics.
fn push_names(attributes: &mut Attributes, provider: &str, model: &str) {
    attributes.push(KeyValue::new("gen_ai.provider.name", provider_name(provider).to_owned()));
    if let Some(model) = known(model) {
        attributes.push(KeyValue::new("gen_ai.request.model", model.to_owned()));
    }
}

/// The names of the provider and the model of a routed call. They are recorded when the call ends, because only the
/// response names the route that answered, and an attribute that is recorded twice is exported twice.
struct RoutedNames {
    provider: String,
    model: String,
    /// Set if the name of the span contains another model.
    is_other_model: bool,
}

impl RoutedNames {
    /// Returns the names of the router's first choice, which are recorded if no route answers.
    fn first(target: &CallTarget<'_>) -> Self {
        let (provider, model) = (target.provider.to_owned(), target.model.to_owned());
        Self { provider, model, is_other_model: false }
    }

    /// Takes the names of the route that answered.
    fn answered(&mut self, answer: &CompletionResponse) {
        let Some(route) = answer.message.metadata().and_then(|metadata| metadata.route) else {
            return;
        };
        let AnswerRoute { provider, model, .. } = route;
        if let Some(model) = known(&model).or(known(&answer.model)) {
            self.is_other_model = self.model != model;
            self.model = model.to_owned();
        }
        self.provider = provider;
    }

    /// Records the names on the span of the call.
    fn record(&self, record: &Record<'_>, conventions: SemanticConventions) {
        let provider = match conventions.is_book() {
            true => "gen_ai.system",
            false => "gen_ai.provider.name",
        };
        record.text(provider, provider_name(&self.provider));
        if let Some(model) = known(&self.model) {
            record.text("gen_ai.request.model", model);
        }
        if self.is_other_model {
            record.name(conventions.span_name("chat", &self.model));
        }
    }
}

/// Records the span attributes, the metrics and the content of a model call when the call ends.
pub(crate) struct ChatRecorder {
    config: Arc<Config>,
    call: Arc<Activity>,
    streaming: bool,
    /// Names that are recorded at the end. `None` if the provider is not a router.
    routed: Option<Box<RoutedNames>>,
    /// Attributes of the call's metrics. `None` if metrics are disabled.
    attributes: Option<Attributes>,
    /// Content of the request. `None` if events do not contain content.
    sent: Option<Box<CapturedRequest>>,
}

/// The content of a request, serialised for the OpenTelemetry event that contains the content of the call.
struct CapturedRequest {
    provider: String,
    model: String,
    system: Option<String>,
    messages: Option<String>,
    tools: Option<String>,
}

/// Begins a model call. Returns `None` if neither a span nor metrics nor an event would be recorded.
pub(crate) fn open(
    config: &Arc<Config>,
    run: Option<&Arc<RunState>>,
    target: &CallTarget<'_>,
    request: &RequestRef<'_>,
    streaming: bool,
) -> Option<SpanScope<ChatRecorder>> {
    if let Some(run) = run {
        // The call is counted even without a span, because the number is in the metrics of the run.
        run.count_inference_call();
    }
    let target = CallTarget { model: known(request.model).unwrap_or(target.model), ..*target };
    // Only the first model call after a compaction has the attribute `gen_ai.conversation.compacted`.
    let is_compacted =
        run.is_some_and(|run| run.take_compacted()) && config.conventions.is_latest();
    let make = || begin(config, &target, streaming);
    let span = of_run(config, run, make);
    if let Some(record) = Record::of(&span).filter(Record::is_recorded) {
        request_attributes::settings(&record, request);
        request_attributes::settings_of_call(&record, request, config);
        if is_compacted {
            record.flag("gen_ai.conversation.compacted", true);
        }
        if let Some(tier) = request.extra.and_then(|extra| extra.get("service_tier"))
            // The conventions require the service tier only if it is not `auto`.
            && let Some(tier) = tier.as_str().filter(|tier| *tier != "auto")
            && target.provider == "openai"
        {
            record.text("openai.request.service_tier", tier);
        }
        request_attributes::content(&record, run.map(|run| &**run), request, config);
    }
    let attributes = config.instruments.is_enabled().then(|| target.attributes("chat"));
    // The content is serialised now, because the request is not available when the call ends.
    let sent = config
        .content
        .capture
        .in_events()
        .then(|| Box::new(sent(config, run.map(|run| &**run), &target, request)));
    if span.is_disabled() && attributes.is_none() && sent.is_none() {
        return None;
    }
    let call = Activity::new(config, run, Kind::ModelCall);
    let routed = target.is_routed.then(|| Box::new(RoutedNames::first(&target)));
    let (config, recorded) = (config.clone(), call.clone());
    let work = ChatRecorder { config, call: recorded, streaming, routed, attributes, sent };
    Some(SpanScope::new(span, call, work))
}

/// Creates the span of a model call, with the attributes that a sampler may need for its decision. Other attributes are
/// recorded later.
fn begin(config: &Config, target: &CallTarget<'_>, streaming: bool) -> Span {
    let conventions = config.conventions;
    let provider = (!target.is_routed).then(|| target.provider_name());
    let is_book = conventions.is_book();
    tracing::info_span!(
        target: "neuron_otel",
        "chat",
        otel.name = conventions.span_name("chat", target.model),
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider.filter(|_| !is_book),
        gen_ai.system = provider.filter(|_| is_book),
        gen_ai.request.model = known(target.model).filter(|_| !target.is_routed),
        gen_ai.conversation.id = known(target.conversation),
        server.address = known(target.server_address),
        server.port = known(target.server_address).and(target.server_port).map(i64::from),
        gen_ai.request.stream = streaming.then_some(true),
        gen_ai.request.max_tokens = Empty,
        gen_ai.request.temperature = Empty,
        gen_ai.request.top_p = Empty,
        gen_ai.request.top_k = Empty,
        gen_ai.request.stop_sequences = Empty,
        gen_ai.request.frequency_penalty = Empty,
        gen_ai.request.presence_penalty = Empty,
        gen_ai.request.seed = Empty,
        gen_ai.request.choice.count = Empty,
        gen_ai.request.reasoning.level = Empty,
        openai.request.service_tier = Empty,
        gen_ai.output.r#type = Empty,
        gen_ai.conversation.compacted = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.response.stop_reason = Empty,
        gen_ai.response.time_to_first_chunk = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.cache_write.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        neuron.usage.cost = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
    )
}

/// Serialises the system prompt, the messages and the tools of a request. They are recorded at the end of the call, in
/// the OpenTelemetry event that contains the call's content.
fn sent(
    config: &Config,
    run: Option<&RunState>,
    target: &CallTarget<'_>,
    request: &RequestRef<'_>,
) -> CapturedRequest {
    let captured = |kind, value| config.content.captured(kind, value);
    let system = request.system.filter(|system| !system.is_empty());
    CapturedRequest {
        provider: target.provider_name().to_owned(),
        model: target.model.to_owned(),
        system: system.and_then(|system| {
            captured(ContentKind::SystemInstructions, content::system_instructions(system))
        }),
        messages: config.content.input_messages(run, request),
        tools: match request.tools {
            [] => None,
            tools => captured(ContentKind::ToolDefinitions, content::tool_definitions(tools)),
        },
    }
}

impl Recorder for ChatRecorder {
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64) {
        let answer = match ending {
            Ending::Outcome(Outcome::Response(response)) => Some(*response),
            _ => None,
        };
        let failure = ending.failure(self.config.captures_error_texts());
        self.record_end(span, answer, failure.as_ref(), seconds);
    }
}

impl ChatRecorder {
    /// Records a call that ended with a response or a failure.
    fn record_end(
        mut self,
        span: &Span,
        answer: Option<&CompletionResponse>,
        failure: Option<&Failure>,
        seconds: f64,
    ) {
        // The conventions define the time to the first chunk only for streamed calls.
        let first_chunk = self.call.first_chunk_after().filter(|_| self.streaming);
        if let (Some(routed), Some(answer)) = (&mut self.routed, answer) {
            routed.answered(answer);
        }
        if let Some(record) = Record::of(span).filter(Record::is_recorded) {
            if let Some(routed) = &self.routed {
                routed.record(&record, self.config.conventions);
            }
            self.record(&record, answer, failure, first_chunk);
        }
        if let (Some(routed), Some(sent)) = (&self.routed, &mut self.sent) {
            sent.provider = provider_name(&routed.provider).to_owned();
            sent.model.clone_from(&routed.model);
        }
        if let Some(sent) = &self.sent {
            // The event is emitted inside the span, so that log exporters associate the event with the span.
            span.in_scope(|| self.emit(sent, answer, failure));
        }
        if let Some(mut attributes) = self.attributes.take() {
            if let Some(routed) = &self.routed {
                push_names(&mut attributes, &routed.provider, &routed.model);
            }
            self.measure(attributes, answer, failure, first_chunk, seconds);
        }
    }

    /// Records the response or the failure on the span.
    fn record(
        &self,
        record: &Record<'_>,
        answer: Option<&CompletionResponse>,
        failure: Option<&Failure>,
        first_chunk: Option<f64>,
    ) {
        let conventions = self.config.conventions;
        if let Some(seconds) = first_chunk {
            record.number("gen_ai.response.time_to_first_chunk", seconds);
        }
        if let Some(failure) = failure {
            record.failure(failure);
            // The latest conventions require a finish reason even for a broken stream.
            if self.streaming && conventions.is_latest() {
                record.texts("gen_ai.response.finish_reasons", ["error"]);
            }
        }
        let Some(answer) = answer else {
            return;
        };
        if let Some(id) = known(&answer.id) {
            record.text("gen_ai.response.id", id);
        }
        if let Some(model) = known(&answer.model) {
            record.text("gen_ai.response.model", model);
        }
        if conventions.is_book() {
            let reason = conventions::stop_reason(&answer.stop_reason);
            record.text("gen_ai.response.stop_reason", reason);
        } else {
            let reason = conventions::finish_reason(&answer.stop_reason);
            record.texts("gen_ai.response.finish_reasons", [reason]);
        }
        record.usage(&answer.usage, conventions, UsageDetails::All);
        if self.config.captures_in_spans()
            && let Some(text) = self.output(answer)
        {
            record.text("gen_ai.output.messages", &text);
        }
    }

    /// Returns the value of `gen_ai.output.messages`, or `None` if the redaction omits it.
    fn output(&self, answer: &CompletionResponse) -> Option<String> {
        let reason = self.config.conventions.finish_reason_in_response(&answer.stop_reason);
        let value = content::output_messages(answer, reason);
        self.config.content.captured(ContentKind::OutputMessages, value)
    }

    /// Emits the event that contains the content of the call.
    fn emit(
        &self,
        sent: &CapturedRequest,
        answer: Option<&CompletionResponse>,
        failure: Option<&Failure>,
    ) {
        let reasons = answer.map(|answer| {
            serde_json::json!([conventions::finish_reason(&answer.stop_reason)]).to_string()
        });
        // With a parent, the layer would also export the event within the span. Log exporters find the current span
        // themselves.
        tracing::event!(
            name: "gen_ai.client.inference.operation.details",
            target: "neuron_otel",
            parent: None,
            tracing::Level::INFO,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = sent.provider.as_str(),
            gen_ai.request.model = known(&sent.model),
            gen_ai.response.id = answer.and_then(|answer| known(&answer.id)),
            gen_ai.response.model = answer.and_then(|answer| known(&answer.model)),
            gen_ai.response.finish_reasons = reasons,
            gen_ai.usage.input_tokens = answer.map(|answer| answer.usage.input_tokens),
            gen_ai.usage.output_tokens = answer.map(|answer| answer.usage.output_tokens),
            gen_ai.system_instructions = sent.system.as_deref(),
            gen_ai.input.messages = sent.messages.as_deref(),
            gen_ai.output.messages = answer.and_then(|answer| self.output(answer)),
            gen_ai.tool.definitions = sent.tools.as_deref(),
            "error.type" = failure.map(|failure| failure.kind),
        );
    }

    /// Records the metrics of the call. `call` contains the metric attributes that are known from the request.
    /// `first_chunk` is the time to the first chunk and `seconds` is the whole duration, both in seconds.
    fn measure(
        &self,
        mut call: Attributes,
        answer: Option<&CompletionResponse>,
        failure: Option<&Failure>,
        first_chunk: Option<f64>,
        seconds: f64,
    ) {
        let Some(instruments) = self.config.instruments.get(self.config.conventions) else {
            return;
        };
        let model = answer.and_then(|answer| known(&answer.model));
        call.extend(model.map(|model| KeyValue::new("gen_ai.response.model", model.to_owned())));
        let usage = answer.map(|answer| &answer.usage);
        instruments.inference(seconds, first_chunk, usage, failure, call);
    }
}
