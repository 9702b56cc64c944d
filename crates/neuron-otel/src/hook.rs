//! [`OtelHook`]: makes spans and metrics of what an agent does.

use std::sync::Arc;

use neuron_types::{
    EmbeddingProvider, HookAction, HookError, HookEvent, HookScope, ObservabilityHook, Operation,
    OperationKind, OperationScope, Provider,
};
use opentelemetry::metrics::MeterProvider;
use serde_json::Value;

use crate::capture::Content;
use crate::config::Config;
use crate::environment::Environment;
use crate::metrics::Instruments;
use crate::run_state::{Activity, RunState};
use crate::spans::chat::Place;
use crate::spans::{agent, chat, compaction, tool, turn};
use crate::{ContentCapture, ContentKind, OtelEmbeddings, OtelProvider, SemanticConventions};

/// Makes OpenTelemetry spans and metrics of what an agent does. It watches and never interferes.
///
/// Spans are spans of [`tracing`] with the target `neuron_otel`, at INFO; a layer of `tracing_opentelemetry` in the
/// application's subscriber exports them. Metrics go to OpenTelemetry's API: to the global meter provider that is
/// installed when the hook first measures something.
///
/// The crate's page tells [what is told](crate#what-is-told), [what leaves the process](crate#privacy) and how to
/// [set it up](crate#set-up).
///
/// Clones share their settings and instruments. An agent inside a tool has the hooks of the agent around it: its
/// run's span stands below the tool call's.
#[derive(Debug, Clone)]
pub struct OtelHook {
    pub(crate) config: Arc<Config>,
}

impl OtelHook {
    /// Follows the environment: `OTEL_SEMCONV_STABILITY_OPT_IN` selects the [conventions](SemanticConventions),
    /// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` whether [content](ContentCapture) is told. Without them:
    /// version 1.41, and none. Metrics go to the global meter provider.
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
        }
    }

    /// Sets the names and attributes, whatever the environment says.
    #[must_use]
    pub fn with_conventions(self, conventions: SemanticConventions) -> Self {
        self.with(|config| config.conventions = conventions)
    }

    /// Sets whether prompts, answers, arguments and results are told, whatever the environment says.
    #[must_use]
    pub fn with_content(self, capture: ContentCapture) -> Self {
        self.with(|config| config.content.capture = capture)
    }

    /// Lets a function see each piece of content before it is told, and change it; `None` leaves it out. Without
    /// [captured content](Self::with_content) it sees nothing.
    ///
    /// It runs where the agent runs, and should be quick. A piece at which it panics is left out. Texts of errors
    /// that may quote a piece do not pass it: with a redaction they are not told.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_otel::{ContentCapture, ContentKind, OtelHook};
    ///
    /// let hook = OtelHook::new()
    ///     .with_content(ContentCapture::Spans)
    ///     .with_redaction(|kind, value| match kind {
    ///         // What tools give stays here.
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

    /// Measures with this provider in place of the global one.
    #[must_use]
    pub fn with_meter_provider(self, provider: &impl MeterProvider) -> Self {
        self.with(|config| config.instruments = Instruments::of(provider))
    }

    /// Measures nothing.
    #[must_use]
    pub fn without_metrics(self) -> Self {
        self.with(|config| config.instruments = Instruments::none())
    }

    /// Makes spans also where the trace around them is not sampled.
    ///
    /// By default a run makes none below a span that is not sampled: a sampler that follows the parent, as the
    /// SDK's default does, would drop them, and they cost a microsecond each. Set this where a sampler decides
    /// otherwise, or where logs need the spans.
    #[must_use]
    pub fn with_unsampled_spans(self) -> Self {
        self.with(|config| config.unsampled = true)
    }

    /// Gives the calls of an embedding provider spans and metrics.
    #[must_use]
    pub fn embeddings<E: EmbeddingProvider>(&self, provider: E) -> OtelEmbeddings<E> {
        OtelEmbeddings::new(provider, self.clone())
    }

    /// Gives the calls of a provider spans and metrics, for calls outside of an agent's loop.
    #[must_use]
    pub fn provider<P: Provider>(&self, provider: P) -> OtelProvider<P> {
        OtelProvider::new(provider, self.clone())
    }

    fn with(self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            conventions: self.config.conventions,
            content: self.config.content.clone(),
            instruments: self.config.instruments.again(),
            unsampled: self.config.unsampled,
        };
        change(&mut config);
        Self { config: Arc::new(config) }
    }
}

/// As [`OtelHook::new`].
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
        match event {
            HookEvent::FirstChunk => Activity::first_chunk_came(),
            HookEvent::LoopIteration { turn } if self.config.conventions.is_book() => {
                self.begin_turn(turn, scope);
            }
            _ => {}
        }
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let (config, scope) = (&self.config, &operation.scope);
        match operation.kind {
            OperationKind::Run { session_id, request } => {
                Some(Box::new(agent::open(config, scope, session_id, request)?))
            }
            OperationKind::ToolCall { call, offered } => {
                let run = RunState::current(config);
                let called = tool::Called::new(call, offered);
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
            // What a journal answers has been told.
            _ if scope.replaying => None,
            OperationKind::ModelCall { request, streaming } => {
                let run = RunState::current(config);
                let conversation = run.as_deref().map_or("", RunState::conversation);
                let place = Place::of(scope, conversation);
                Some(Box::new(chat::open(config, run.as_ref(), &place, request, streaming)?))
            }
            OperationKind::Compaction { old_tokens } => {
                Some(Box::new(compaction::open(config, RunState::current(config), old_tokens)))
            }
            _ => None,
        }
    }
}

impl OtelHook {
    /// Ends the span of the turn before, and begins this one's.
    fn begin_turn(&self, number: usize, scope: &HookScope<'_>) {
        let Some(run) = RunState::current(&self.config) else {
            return;
        };
        run.end_turn();
        if !scope.replaying {
            let span = run.span();
            if !span.is_disabled() {
                run.begin_turn(turn::begin(&span, number));
            }
        }
    }
}
