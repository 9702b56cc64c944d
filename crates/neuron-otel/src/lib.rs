//! OpenTelemetry traces and metrics of agents, by the GenAI semantic conventions.
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
//! # What is told
//!
//! | span | name | kind |
//! |---|---|---|
//! | a run | `invoke_agent {agent}` | INTERNAL |
//! | a call of a model, up to the end of its answer | `chat {model}` | CLIENT |
//! | a tool call | `execute_tool {tool}` | INTERNAL |
//! | a compaction | `neuron.context.compaction` | INTERNAL |
//! | a call for embeddings ([`OtelEmbeddings`]) | `embeddings {model}` | CLIENT |
//! | a request to an MCP server, or to one of yours | by `neuron-mcp`: `tools/call {tool}` | CLIENT, SERVER |
//!
//! The calls of a run stand below it, an agent inside a tool below that tool's call. A span is current while its
//! work runs: what a tool or an HTTP client traces and logs stands below, with parallel tools kept apart. It ends
//! with its work on every path; a run that is dropped ends then.
//!
//! With them go the attributes of the conventions: provider, server, models, settings of the request, why the model
//! stopped, tokens with those of caches and reasoning (of a run with those of the agents inside its tools), the time to the first part of a streamed answer, the
//! conversation (the session's id), and for what failed `error.type` with the status ERROR. `error.type` is the
//! innermost [kind](neuron_types::LoopError::innermost_kind) of an error, `RateLimit` or `MaxTurns` for instance;
//! `tool_error` for a result that a tool gave as an error; `Cancelled` for what was cancelled or dropped; `panic`;
//! `_OTHER` for errors of others. A run or a call that waits for an approval has not failed.
//!
//! A streamed call lasts until its last event was taken: a slow reader makes it longer. A stream that the loop tries
//! again is a call of its own each time; retries around the provider are within one.
//!
//! | metric | of |
//! |---|---|
//! | `gen_ai.client.operation.duration` | calls of models, runs, tool calls and calls for embeddings, by `gen_ai.operation.name` |
//! | `gen_ai.client.operation.time_to_first_chunk` | streamed answers |
//! | `gen_ai.client.token.usage` | tokens, by `gen_ai.token.type` |
//!
//! Those are the names of version 1.41, which are the default. [`SemanticConventions`] selects others: what has
//! become of them since (other metrics, with instruments of their own for agents and tools), or those of neuron's
//! book.
//!
//! # Set-up
//!
//! Spans are spans of [`tracing`]: a layer of `tracing_opentelemetry` exports them. Metrics go to the global meter
//! provider of OpenTelemetry, or to [one that is given](OtelHook::with_meter_provider). The crate installs neither,
//! and is of `opentelemetry` 0.33 and `tracing-opentelemetry` 0.34: an application's own must be the same, else
//! lists such as `gen_ai.response.finish_reasons` arrive as JSON text.
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
//! The layer adds to each span where in the source it was made, and on which thread; `with_location(false)` and
//! `with_threads(false)` leave that out. With the exporter of `opentelemetry-otlp` over HTTP and a provider of neuron's
//! in one program, give rustls a default first (`rustls::crypto::ring::default_provider().install_default()`):
//! libraries should not choose one, and that exporter asks for it.
//!
//! The examples `telemetry` (OTLP to a collector) and `tree` (the terminal, without any) are whole programs.
//!
//! | variable | what it does |
//! |---|---|
//! | `OTEL_SEMCONV_STABILITY_OPT_IN` | with `gen_ai_latest_experimental` in its list: [`SemanticConventions::Latest`] |
//! | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | whether content is told: [`ContentCapture`] |
//!
//! Where an exporter sends to, and what is sampled, is the SDK's affair and its variables'.
//!
//! # Privacy
//!
//! No prompt, answer, argument or result leaves the process unless [`OtelHook::with_content`] or the variable asks
//! for it. Of an error only the kind is told where its text may quote one: that of a tool, of a vendor, of a hook that
//! ended the run. Texts that are told are those of limits, rate limits, time-outs and broken connections. A tool that
//! the model invented is `_OTHER`. Names of agents, tools and models, ids of sessions and calls, and the descriptions
//! of tools, and the settings of requests with their stop sequences, are always told. With content,
//! [`OtelHook::with_redaction`] sees each piece first.
//!
//! The layer exports what is logged within a span as well: what a tool logs, and without a filter for levels what
//! libraries log for their own debugging. Lines of neuron that may quote a conversation stand in no span.
//!
//! The layer exports the spans and the log of all libraries, and some log what they send: with tools of MCP servers
//! it needs a filter without the target `rmcp`, whose log has whole messages.
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
//! Langfuse and Phoenix show the input and output of a trace by its root span. With [`ContentCapture::Spans`] the span
//! of a run has both by the conventions' own attributes, which both products read: `gen_ai.input.messages` with the
//! conversation as it is sent first, and `gen_ai.output.messages` with the response of the run. A run that fails or
//! waits for an approval has an input alone. The spans of a run, its model calls and its tool calls have
//! `gen_ai.conversation.id`, by which both products group traces to sessions.
//!
//! If an application's own span is the root, such as the span of an HTTP request, these products show the messages at
//! the span of the run below it. The trace then has an input only if the application records it on its span.
//!
//! # Durable runs
//!
//! What a journal repeats is not told again. The run of a further attempt has a span of its own from when it does
//! more than the one before did, with `neuron.run.resumed`; its tokens are those of the whole run. Tools that an
//! engine runs in another process have their spans in this one, but what they trace there does not stand below. A run
//! that an engine suspends is dropped, and its attempt told as `Cancelled`. Restate says only with the next step that a
//! replay is over: of the first call of a model after it nothing is told. The span of a resumed run has no content.
//!
//! # What it costs
//!
//! `benches/README.md` has the figures. Below a span that is not sampled no spans are made, only metrics.
//!
//! # Not told
//!
//! The time between the parts of a streamed answer (`time_per_output_chunk`); ids, versions and descriptions of
//! agents, which agents do not have; the vendors' own attributes, except OpenAI's `service_tier` where a request
//! sets it; durations of MCP sessions and requests as metrics.

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
mod placement;
mod record;
mod run_state;
mod span_scope;
mod spans;

pub use capture::{ContentCapture, ContentKind};
pub use conventions::SemanticConventions;
pub use embeddings::OtelEmbeddings;
pub use hook::OtelHook;
pub use provider::OtelProvider;
pub use trace_context::{current_trace_context, set_trace_parent};
