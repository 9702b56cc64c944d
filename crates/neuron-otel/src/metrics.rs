//! The instruments of a hook, and the recording of measurements.

use std::slice;
use std::sync::OnceLock;

use neuron_types::TokenUsage;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry::{InstrumentationScope, KeyValue, global};

use crate::SemanticConventions;
use crate::failure::Failure;
use crate::record::dollars;

/// Bucket boundaries of durations in seconds. The conventions advise 0.01 · 2ⁿ.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Bucket boundaries of token counts, 4ⁿ.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Bucket boundaries of the durations of runs in seconds, 0.1 · 2ⁿ.
const SECONDS_OF_RUN: [f64; 13] =
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

/// Bucket boundaries of the number of calls in a run, 2ⁿ.
const CALLS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// The instruments of a hook. They are created at the first measurement, so an application must install its meter
/// provider before the first measurement.
#[derive(Debug)]
pub(crate) struct Instruments {
    source: Source,
    created: OnceLock<Option<CreatedInstruments>>,
}

/// The source of the meter that creates the instruments.
#[derive(Debug, Clone)]
enum Source {
    /// The global meter provider.
    Global,
    Meter(Meter),
    /// Metrics are disabled.
    None,
}

/// The attributes of a measurement.
pub(crate) type Attributes = Vec<KeyValue>;

impl Instruments {
    /// Returns instruments of the global meter provider.
    pub(crate) fn global() -> Self {
        Self::from(Source::Global)
    }

    /// Returns instruments of a given meter provider.
    pub(crate) fn of(provider: &impl MeterProvider) -> Self {
        Self::from(Source::Meter(provider.meter_with_scope(scope())))
    }

    /// Returns instruments that record nothing.
    pub(crate) fn none() -> Self {
        Self::from(Source::None)
    }

    fn from(source: Source) -> Self {
        Self { source, created: OnceLock::new() }
    }

    /// Returns a copy that uses the same meter provider. The copy creates its own instruments at its first measurement.
    pub(crate) fn fresh_copy(&self) -> Self {
        Self::from(self.source.clone())
    }

    /// Returns `true` if metrics are enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        !matches!(self.source, Source::None)
    }

    /// Returns the instruments, which the first call creates. Returns `None` if metrics are disabled.
    pub(crate) fn get(&self, conventions: SemanticConventions) -> Option<&CreatedInstruments> {
        // Created lazily, because the application may install its meter provider after it creates the hook.
        let make = || {
            let meter = match &self.source {
                Source::Global => global::meter_with_scope(scope()),
                Source::Meter(meter) => meter.clone(),
                Source::None => return None,
            };
            Some(CreatedInstruments::new(&meter, conventions.is_latest()))
        };
        self.created.get_or_init(make).as_ref()
    }
}

/// Returns the OpenTelemetry instrumentation scope of this crate, which contains its name and version.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("neuron-otel").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The created instruments of a hook. The first measurement creates them.
#[derive(Debug)]
pub(crate) struct CreatedInstruments {
    /// Duration of operations. With the latest conventions, many operations have a separate instrument in the field
    /// `latest`. This instrument then records only the other operations, such as embedding calls.
    operation: Histogram<f64>,
    /// Time to the first chunk of a stream.
    first_chunk: Histogram<f64>,
    tokens: Tokens,
    /// Cost of model calls. The conventions define no metric for it, so the name is neuron's.
    cost: Counter<f64>,
    /// Instruments that only the latest conventions have.
    latest: Option<Latest>,
}

/// The instruments that count tokens.
#[derive(Debug)]
enum Tokens {
    /// The single histogram of version 1.41 for all kinds of tokens.
    Combined(Histogram<u64>),
    /// The separate instruments of the latest conventions.
    Separate(Box<TokenCounters>),
}

#[derive(Debug)]
struct TokenCounters {
    input: Counter<u64>,
    output: Counter<u64>,
    cache_read: Counter<u64>,
    cache_write: Counter<u64>,
    reasoning: Counter<u64>,
    input_of_operation: Histogram<u64>,
    output_of_operation: Histogram<u64>,
}

/// The instruments that only the latest conventions have.
#[derive(Debug)]
struct Latest {
    inference: Histogram<f64>,
    agent: Histogram<f64>,
    inference_calls: Histogram<u64>,
    tool_calls: Histogram<u64>,
    tool: Histogram<f64>,
}

impl CreatedInstruments {
    fn new(meter: &Meter, is_latest: bool) -> Self {
        let seconds = |name: &'static str, of: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(of);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let seconds_of_run = |name: &'static str, of: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(of);
            histogram.with_boundaries(SECONDS_OF_RUN.to_vec()).build()
        };
        let tokens = |name: &'static str, of: &'static str| {
            let histogram = meter.u64_histogram(name).with_unit("{token}").with_description(of);
            histogram.with_boundaries(TOKENS.to_vec()).build()
        };
        let counter = |name: &'static str, of: &'static str| {
            meter.u64_counter(name).with_unit("{token}").with_description(of).build()
        };
        let calls = |name: &'static str, unit: &'static str, of: &'static str| {
            let histogram = meter.u64_histogram(name).with_unit(unit).with_description(of);
            histogram.with_boundaries(CALLS.to_vec()).build()
        };
        let operation =
            seconds("gen_ai.client.operation.duration", "How long GenAI operations take");
        let cost = meter
            .f64_counter("neuron.client.cost")
            .with_unit("{USD}")
            .with_description("Cost of model calls in US dollars")
            .build();
        if !is_latest {
            return Self {
                operation,
                cost,
                first_chunk: seconds(
                    "gen_ai.client.operation.time_to_first_chunk",
                    "How long streamed answers take until their first part comes",
                ),
                tokens: Tokens::Combined(tokens(
                    "gen_ai.client.token.usage",
                    "How many tokens operations take",
                )),
                latest: None,
            };
        }
        Self {
            operation,
            cost,
            first_chunk: seconds(
                "gen_ai.client.inference.time_to_first_chunk",
                "How long streamed answers take until their first part comes",
            ),
            tokens: Tokens::Separate(Box::new(TokenCounters {
                input: counter("gen_ai.client.inference.usage.input_tokens", "Tokens of prompts"),
                output: counter("gen_ai.client.inference.usage.output_tokens", "Tokens of answers"),
                cache_read: counter(
                    "gen_ai.client.inference.usage.cache_read.input_tokens",
                    "Tokens of prompts that were read from a cache",
                ),
                cache_write: counter(
                    "gen_ai.client.inference.usage.cache_write.input_tokens",
                    "Tokens of prompts that were written to a cache",
                ),
                reasoning: counter(
                    "gen_ai.client.inference.usage.reasoning.output_tokens",
                    "Tokens of answers that were reasoning",
                ),
                input_of_operation: tokens(
                    "gen_ai.client.inference.operation.input_tokens",
                    "How many tokens prompts have",
                ),
                output_of_operation: tokens(
                    "gen_ai.client.inference.operation.output_tokens",
                    "How many tokens answers have",
                ),
            })),
            latest: Some(Latest {
                inference: seconds(
                    "gen_ai.client.inference.duration",
                    "How long calls of models take",
                ),
                agent: seconds_of_run(
                    "gen_ai.invoke_agent.duration",
                    "How long runs of agents take",
                ),
                inference_calls: calls(
                    "gen_ai.invoke_agent.inference_calls",
                    "{inference_call}",
                    "How many calls of models runs of agents make",
                ),
                tool_calls: calls(
                    "gen_ai.invoke_agent.tool_calls",
                    "{tool_call}",
                    "How many tool calls runs of agents make",
                ),
                tool: seconds("gen_ai.execute_tool.duration", "How long tool calls take"),
            }),
        }
    }

    /// Records a model call with its duration in seconds, the time to the first chunk in seconds, its tokens and their
    /// cost.
    pub(crate) fn inference(
        &self,
        seconds: f64,
        first_chunk: Option<f64>,
        usage: Option<&TokenUsage>,
        failure: Option<&Failure>,
        mut call: Attributes,
    ) {
        let duration = self.latest.as_ref().map_or(&self.operation, |latest| &latest.inference);
        with_attribute(&mut call, failure.map(error_type), |ended| duration.record(seconds, ended));
        if let Some(seconds) = first_chunk {
            self.first_chunk.record(seconds, &call);
        }
        if let Some(usage) = usage {
            self.tokens.count(usage, &mut call);
            if let Some(dollars) = dollars(usage) {
                self.cost.add(dollars, &call);
            }
        }
    }

    /// Records an embedding call with its duration in seconds and its tokens.
    pub(crate) fn embeddings(
        &self,
        seconds: f64,
        tokens: Option<usize>,
        failure: Option<&Failure>,
        call: &mut Attributes,
    ) {
        with_attribute(call, failure.map(error_type), |ended| {
            self.operation.record(seconds, ended)
        });
        // The latest conventions have no metric for the tokens of embeddings.
        if let (Tokens::Combined(histogram), Some(tokens)) = (&self.tokens, tokens) {
            with_attribute(call, Some(token_type("input")), |call| {
                histogram.record(wide(tokens), call)
            });
        }
    }

    /// Records a run with its duration in seconds and the numbers of its model calls and tool calls.
    pub(crate) fn agent(
        &self,
        seconds: f64,
        calls: (u64, u64),
        failure: Option<&Failure>,
        mut attributes: Attributes,
    ) {
        attributes.extend(failure.map(error_type));
        match &self.latest {
            None => self.operation.record(seconds, &attributes),
            Some(latest) => {
                latest.agent.record(seconds, &attributes);
                let (inference_calls, tool_calls) = calls;
                // The conventions define only the agent's name as an attribute of these metrics.
                let agent =
                    attributes.iter().find(|found| found.key.as_str() == "gen_ai.agent.name");
                latest.inference_calls.record(inference_calls, agent.map_or(&[], slice::from_ref));
                latest.tool_calls.record(tool_calls, agent.map_or(&[], slice::from_ref));
            }
        }
    }

    /// Records a tool call with its duration in seconds.
    pub(crate) fn tool(&self, seconds: f64, failure: Option<&Failure>, mut attributes: Attributes) {
        attributes.extend(failure.map(error_type));
        let duration = self.latest.as_ref().map_or(&self.operation, |latest| &latest.tool);
        duration.record(seconds, &attributes);
    }
}

impl Tokens {
    /// Records the tokens of a model call. `call` has the attributes of the metrics, and is unchanged afterwards.
    fn count(&self, usage: &TokenUsage, call: &mut Attributes) {
        match self {
            Self::Combined(tokens) => {
                for (kind, count) in
                    [("input", usage.input_tokens), ("output", usage.output_tokens)]
                {
                    with_attribute(call, Some(token_type(kind)), |call| {
                        tokens.record(wide(count), call)
                    });
                }
            }
            Self::Separate(tokens) => {
                tokens.input_of_operation.record(wide(usage.input_tokens), call);
                tokens.output_of_operation.record(wide(usage.output_tokens), call);
                // The conventions require a modality, but no provider reports all its counts by modality.
                let unknown = KeyValue::new("gen_ai.token.modality", "unknown");
                with_attribute(call, Some(unknown), |call| tokens.add(usage, call));
            }
        }
    }
}

impl TokenCounters {
    fn add(&self, usage: &TokenUsage, attributes: &[KeyValue]) {
        self.input.add(wide(usage.input_tokens), attributes);
        self.output.add(wide(usage.output_tokens), attributes);
        let parts = [
            (&self.cache_read, usage.cache_read_tokens),
            (&self.cache_write, usage.cache_creation_tokens),
            (&self.reasoning, usage.reasoning_tokens),
        ];
        for (counter, count) in parts {
            if let Some(count) = count {
                counter.add(wide(count), attributes);
            }
        }
    }
}

/// Calls `measure` with `attributes` and, if it is set, the attribute `more`. Adds `more` only for this call, which is
/// cheaper than a copy of the list.
fn with_attribute(
    attributes: &mut Attributes,
    more: Option<KeyValue>,
    measure: impl FnOnce(&[KeyValue]),
) {
    let count = attributes.len();
    attributes.extend(more);
    measure(attributes);
    attributes.truncate(count);
}

fn error_type(failure: &Failure) -> KeyValue {
    KeyValue::new("error.type", failure.kind)
}

fn token_type(kind: &'static str) -> KeyValue {
    KeyValue::new("gen_ai.token.type", kind)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
