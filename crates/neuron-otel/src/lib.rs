//! OpenTelemetry traces and metrics of agents, following the GenAI semantic conventions.
//!
//! ```
//! use neuron_loop::Agent;
//! use neuron_otel::OtelHook;
//! # use neuron_testing::ScriptedProvider;
//! # let provider = ScriptedProvider::new(["Hi!"]);
//!
//! let agent = Agent::builder(provider).hook(OtelHook::default()).build();
//! ```
//!
//! # Telemetry
//!
//! | span | name | kind |
//! |---|---|---|
//! | a run | `invoke_agent {agent}` | INTERNAL |
//! | a model call, until the end of the response | `chat {model}` | CLIENT |
//! | a call of a router's route | by `neuron-router`, `route {route}` | INTERNAL |
//! | a tool call | `execute_tool {tool}` | INTERNAL |
//! | a compaction | `neuron.context.compaction` | INTERNAL |
//! | an embedding call ([`OtelEmbeddings`]) | `embeddings {model}` | CLIENT |
//! | an MCP request, at the client or at your server | by `neuron-mcp`, for example `tools/call {tool}` | CLIENT, SERVER |
//!
//! The model calls and tool calls of a run are children of the run's span. An agent inside a tool may inherit the hooks
//! of the parent run (`AgentBuilder::inherit_hooks`). The span of the inner run is then a child of the tool call's
//! span. A span is current while its operation is polled, so spans and logs of tools and HTTP clients become its
//! children. Parallel tools have separate current spans. A span always ends with its operation. The span of a dropped
//! run ends when the run is dropped.
//!
//! Spans have the attributes of the conventions. These are the provider, the server, the models, settings of the
//! request, the finish reason, token counts including cached and reasoning tokens, the time to the first chunk of a
//! stream, and the conversation (the session id). The token counts of a run include the agents inside its tools.
//!
//! A [router](neuron_types::ProviderInfo::routes) chooses the provider and the model of each call. The span of its call
//! gets both names at its end, from the route that answered, or from the router's first choice if no route answered.
//! The span of the run names the first choice.
//!
//! If the run's budget has prices, the spans of runs and model calls also have `neuron.usage.cost`, the cost in US
//! dollars. The conventions define no attribute for it. It is left out if the [cost](neuron_types::TokenUsage::cost) is
//! incomplete, and for a model call that failed.
//!
//! A failed operation has `error.type` and the status ERROR. `error.type` is the innermost
//! [kind](neuron_types::LoopError::innermost_kind) of an error, such as `RateLimit` or `MaxTurns`. Other values are
//! `tool_error` for a failed tool result, `Cancelled` for a cancelled or dropped operation, `panic` after a panic, and
//! `_OTHER` for errors of other crates. A run or a call that waits for an approval is not a failure.
//!
//! The span of a streamed call ends when the caller reads the last event, so a slow reader prolongs the span. If the
//! loop repeats a broken stream, each attempt has a separate span. Retries inside the provider share one span.
//!
//! | metric | recorded for |
//! |---|---|
//! | `gen_ai.client.operation.duration` | model calls, runs, tool calls and embedding calls, by `gen_ai.operation.name` |
//! | `gen_ai.client.operation.time_to_first_chunk` | streamed responses |
//! | `gen_ai.client.token.usage` | tokens, by `gen_ai.token.type` |
//! | `neuron.client.cost` | cost of model calls in US dollars, if the run's budget has prices |
//!
//! The table shows the names of version 1.41, which is the default. [`SemanticConventions`] selects the latest
//! conventions, or the names in neuron's book. The latest conventions have other metrics, with separate instruments for
//! agents and tools.
//!
//! # Setup
//!
//! Spans are [`tracing`] spans, and a layer of `tracing_opentelemetry` exports them. Metrics are recorded by
//! OpenTelemetry's global meter provider, or by a [given provider](OtelHook::with_meter_provider). The application must
//! install the layer and the meter provider. This crate uses `opentelemetry` 0.33 and `tracing-opentelemetry` 0.34, and
//! an application must use the same versions. With other versions, lists such as `gen_ai.response.finish_reasons` are
//! exported as JSON text.
//!
//! ```
//! use opentelemetry::trace::TracerProvider;
//! use tracing_subscriber::prelude::*;
//!
//! # use opentelemetry_sdk::trace::InMemorySpanExporter;
//! # let exporter = InMemorySpanExporter::default();
//! let tracer_provider = opentelemetry_sdk::trace::SdkTracerProvider::builder()
//!     .with_simple_exporter(exporter)
//!     .build();
//! let spans = tracing_opentelemetry::layer().with_tracer(tracer_provider.tracer("my-service"));
//! tracing_subscriber::registry()
//!     .with(spans.with_filter(tracing_subscriber::filter::LevelFilter::INFO))
//!     .init();
//! ```
//!
//! The layer adds the source location and the thread to each span, unless they are disabled by `with_location(false)`
//! and `with_threads(false)`. A program that uses the HTTP exporter of `opentelemetry-otlp` together with a provider of
//! neuron must first install a default crypto provider of rustls
//! (`rustls::crypto::ring::default_provider().install_default()`). The exporter requires it, and a library should not
//! choose one for the program.
//!
//! A log beside the traces needs a filter of its own, so that it does not reduce the traces. With the filter
//! `info,neuron_otel=off`, the log does not repeat the attributes of the agent's spans.
//!
//! `cargo run -p neuron-otel --example tree` prints a trace as a tree in the terminal, without a collector. `cargo run
//! -p neuron-examples -- telemetry_otlp` sends traces and metrics to a collector.
//!
//! | variable | effect |
//! |---|---|
//! | `OTEL_SEMCONV_STABILITY_OPT_IN` | `gen_ai_latest_experimental` in its list selects [`SemanticConventions::Latest`] |
//! | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | the default of [`ContentCapture`] |
//!
//! Exporters and sampling are configured by the OpenTelemetry SDK and its own variables.
//!
//! # Privacy
//!
//! No prompt, response, argument or result is recorded unless [`OtelHook::with_content`] or the environment variable of
//! [`ContentCapture`] enables it. The text of an error is recorded only if it cannot quote content. Errors of tools, of
//! vendors, and of hooks that end a run may quote content, so only their kind is recorded. Texts about limits, rate
//! limits, timeouts and broken connections are recorded. If the model calls a tool that does not exist, the tool's name
//! is recorded as `_OTHER`.
//!
//! Names of agents, tools and models, ids of sessions and calls, descriptions of tools, and settings of requests
//! including stop sequences are always recorded. With content enabled, the function of [`OtelHook::with_redaction`]
//! receives each piece of content before it is recorded.
//!
//! The layer also exports log events within a span. These are the events of tools and, without a level filter, the
//! debug events of libraries. neuron itself logs text that may quote a conversation only outside of spans.
//!
//! The layer exports the spans and events of all libraries, and some libraries log the data that they send. An
//! application with tools of MCP servers needs a filter that excludes the target `rmcp`, because `rmcp` logs whole
//! messages.
//!
//! ```
//! # use tracing_subscriber::prelude::*;
//! use tracing_subscriber::filter::{LevelFilter, Targets};
//!
//! # let tracer = opentelemetry::trace::noop::NoopTracer::new();
//! let exported = Targets::new().with_default(LevelFilter::INFO).with_target("rmcp", LevelFilter::OFF);
//! let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_filter(exported);
//! # tracing_subscriber::registry().with(layer);
//! ```
//!
//! # Input and output of a trace
//!
//! Langfuse and Phoenix show the input and output of a trace by the attributes of its root span. With
//! [`ContentCapture::Spans`] the span of a run has both, in attributes of the conventions that both products read.
//! `gen_ai.input.messages` contains the conversation of the first request, and `gen_ai.output.messages` contains the
//! response of the run. A run that fails or waits for an approval has only an input. The spans of a run, its model
//! calls and its tool calls have `gen_ai.conversation.id`, and both products group traces to sessions by this id.
//!
//! If the root is a span of the application, such as the span of an HTTP request, these products show the messages at
//! the run's span below it. The trace then has an input only if the application records one on its root span.
//!
//! # Durable runs
//!
//! Replayed operations are not recorded again. If an attempt resumes a run, its span begins with the first new work and
//! has `neuron.run.resumed`. This span has the token counts of the whole run, but no content.
//!
//! An engine may run tools in another process. Such a tool call has a span in this process, but spans that the other
//! process creates are not its children. If an engine suspends a run, the run is dropped and its attempt is recorded as
//! `Cancelled`. Restate reports the end of a replay only with the next step, so the first model call after a replay is
//! not recorded.
//!
//! # Cost
//!
//! See `benches/README.md` for measurements. Below an unsampled span this crate creates no spans and records only
//! metrics.
//!
//! # Not recorded
//!
//! - the time between the chunks of a stream (`time_per_output_chunk`)
//! - ids, versions and descriptions of agents, because agents have none
//! - vendors' own attributes, except OpenAI's `service_tier` if a request sets it
//! - durations of MCP sessions and requests as metrics

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod capture;
mod conventions;
mod embeddings;
mod hook;
mod provider;
mod trace_context;

mod config;
mod content;
mod environment;
mod failure;
mod metrics;
mod record;
mod run_state;
mod span_parent;
mod span_scope;
mod spans;

pub use capture::{ContentCapture, ContentKind};
pub use conventions::SemanticConventions;
pub use embeddings::OtelEmbeddings;
pub use hook::OtelHook;
pub use provider::OtelProvider;
pub use trace_context::{current_trace_context, set_trace_parent};
