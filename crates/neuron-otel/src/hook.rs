//! [`OtelHook`], which creates the spans and metrics of agents.

use std::sync::Arc;

use neuron_types::{
    EmbeddingProvider, HookAction, HookAttachment, HookError, HookEvent, HookScope,
    ObservabilityHook, Operation, OperationKind, OperationScope, Provider,
};
use opentelemetry::metrics::MeterProvider;
use serde_json::Value;

use crate::capture::Content;
use crate::config::Config;
use crate::environment::Environment;
use crate::metrics::Instruments;
use crate::run_state::{Activity, RunState};
use crate::spans::chat::CallTarget;
use crate::spans::{agent, chat, compaction, tool, turn};
use crate::{ContentCapture, ContentKind, OtelEmbeddings, OtelProvider, SemanticConventions};

/// A hook that creates OpenTelemetry spans and metrics of agents. It observes runs and never changes them.
///
/// Spans are [`tracing`] spans at INFO level with the target `neuron_otel`. A layer of `tracing_opentelemetry` in the
/// application's subscriber exports them. Metrics are recorded by the global meter provider, so the application must
/// install its meter provider before the first measurement.
///
/// See the crate's page for the [recorded telemetry](crate#telemetry), for [privacy](crate#privacy), and for the
/// [setup](crate#setup).
///
/// Clones share their settings and instruments. An agent inside a tool may inherit the hooks of the parent run
/// (`AgentBuilder::inherit_hooks`). The span of the inner run is then a child of the tool call's span.
#[derive(Debug, Clone)]
pub struct OtelHook {
    pub(crate) config: Arc<Config>,
    attachment: HookAttachment,
}

impl OtelHook {
    /// Creates a hook with the settings of the environment variables.
    ///
    /// `OTEL_SEMCONV_STABILITY_OPT_IN` selects the [conventions](SemanticConventions).
    /// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` selects the [captured content](ContentCapture). By default,
    /// the hook uses version 1.41, captures no content, and records metrics with the global meter provider.
    #[must_use]
    pub fn new() -> Self {
        let environment = Environment::read();
        let conventions = match environment.latest {
            true => SemanticConventions::Latest,
            false => SemanticConventions::default(),
        };
        Self {
            config: Arc::new(Config {
                conventions,
                content: Content { capture: environment.capture, redact: None },
                instruments: Instruments::global(),
                unsampled: false,
            }),
            attachment: HookAttachment::default(),
        }
    }

    /// Sets the version of the conventions. Overrides `OTEL_SEMCONV_STABILITY_OPT_IN`.
    #[must_use]
    pub fn with_conventions(self, conventions: SemanticConventions) -> Self {
        self.with(|config| config.conventions = conventions)
    }

    /// Selects the telemetry (spans, events, both or none) that contains prompts, responses, arguments and results.
    /// Overrides `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`.
    #[must_use]
    pub fn with_content(self, capture: ContentCapture) -> Self {
        self.with(|config| config.content.capture = capture)
    }

    /// Sets a function that redacts content. The function receives each piece of content before the piece is recorded.
    /// It returns the content to record, or `None` to omit the piece. It is called only if [content is
    /// captured](Self::with_content).
    ///
    /// The function runs on the agent's task and should be fast. If it panics, the piece of content is omitted. It does
    /// not receive the texts of errors. With a redaction, an error text that may quote content is therefore never
    /// recorded.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_otel::{ContentCapture, ContentKind, OtelHook};
    ///
    /// let hook = OtelHook::new()
    ///     .with_content(ContentCapture::Spans)
    ///     .with_redaction(|kind, value| match kind {
    ///         // Tool results stay in the process.
    ///         ContentKind::ToolResult | ContentKind::InputMessages => None,
    ///         _ => Some(value),
    ///     });
    /// ```
    #[must_use]
    pub fn with_redaction(
        self,
        redact: impl Fn(ContentKind, Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.content.redact = Some(Arc::new(redact)))
    }

    /// Records metrics with `provider` instead of the global meter provider.
    #[must_use]
    pub fn with_meter_provider(self, provider: &impl MeterProvider) -> Self {
        self.with(|config| config.instruments = Instruments::of(provider))
    }

    /// Disables metrics.
    #[must_use]
    pub fn without_metrics(self) -> Self {
        self.with(|config| config.instruments = Instruments::none())
    }

    /// Creates spans in unsampled traces too.
    ///
    /// By default, no spans are created below an unsampled span. Each span costs about a microsecond, and a sampler
    /// that follows the parent, such as the SDK's default, would drop the span. Call this method if your sampler does
    /// not follow the parent, or if logs need the spans.
    #[must_use]
    pub fn with_unsampled_spans(self) -> Self {
        self.with(|config| config.unsampled = true)
    }

    /// Wraps an embedding provider. The calls of the wrapper have spans and metrics.
    #[must_use]
    pub fn embeddings<E: EmbeddingProvider>(&self, provider: E) -> OtelEmbeddings<E> {
        OtelEmbeddings::new(provider, self.clone())
    }

    /// Wraps a provider for model calls outside of an agent's loop. The calls of the wrapper have spans and metrics.
    #[must_use]
    pub fn provider<P: Provider>(&self, provider: P) -> OtelProvider<P> {
        OtelProvider::new(provider, self.clone())
    }

    /// Returns a hook with changed settings. Its instruments are created anew, because they depend on the conventions
    /// and on the meter provider.
    fn with(self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            conventions: self.config.conventions,
            content: self.config.content.clone(),
            instruments: self.config.instruments.fresh_copy(),
            unsampled: self.config.unsampled,
        };
        change(&mut config);
        Self { config: Arc::new(config), attachment: HookAttachment::default() }
    }
}

/// Same as [`OtelHook::new`].
impl Default for OtelHook {
    fn default() -> Self {
        Self::new()
    }
}

impl ObservabilityHook for OtelHook {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.on_event_in(event, &HookScope::default()).await
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.attachment.warn(&event, "OtelHook", "on_event_in and scope");
        match event {
            HookEvent::FirstChunk => Activity::record_first_chunk(),
            // Only `SemanticConventions::Book` has spans of turns.
            HookEvent::LoopIteration { turn } if self.config.conventions.is_book() => {
                self.begin_turn(turn, scope);
            }
            _ => {}
        }
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.attachment.attach();
        let (config, scope) = (&self.config, &operation.scope);
        match operation.kind {
            OperationKind::Run { session_id, request } => {
                Some(Box::new(agent::open(config, scope, session_id, request)?))
            }
            OperationKind::ToolCall { call, offered } => {
                let run = RunState::current(config);
                let called = tool::CalledTool::new(call, offered);
                // The durable context decides at the first poll whether the call really runs, so the span begins then.
                if scope.replaying {
                    return Some(Box::new(tool::ReplayedCall::new(
                        config,
                        run,
                        scope.provider,
                        &called,
                    )));
                }
                let run = run.as_ref();
                Some(Box::new(tool::open(config, run, scope.provider, &called)?))
            }
            // An earlier attempt has recorded a replayed operation.
            _ if scope.replaying => None,
            OperationKind::ModelCall { request, streaming } => {
                let run = RunState::current(config);
                let conversation = run.as_deref().map_or("", RunState::conversation);
                let target = CallTarget::of(scope, conversation);
                Some(Box::new(chat::open(config, run.as_ref(), &target, request, streaming)?))
            }
            OperationKind::Compaction { old_tokens } => {
                Some(Box::new(compaction::open(config, RunState::current(config), old_tokens)))
            }
            _ => None,
        }
    }
}

impl OtelHook {
    /// Ends the span of the previous turn, and begins the span of this turn.
    fn begin_turn(&self, number: usize, scope: &HookScope<'_>) {
        let Some(run) = RunState::current(&self.config) else {
            return;
        };
        run.end_turn();
        // A replayed turn has no span. Its first new operation becomes a child of the run's span.
        if !scope.replaying {
            let span = run.span();
            if !span.is_disabled() {
                run.begin_turn(turn::begin(&span, number));
            }
        }
    }
}
