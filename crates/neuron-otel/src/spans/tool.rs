//! The spans of tool calls.

use std::sync::Arc;

use neuron_types::{OperationScope, Outcome, ToolCall, ToolDefinition};
use opentelemetry::KeyValue;
use tracing::Span;
use tracing::field::Empty;

use crate::config::Config;
use crate::failure::Failure;
use crate::metrics::Attributes;
use crate::record::Record;
use crate::run_state::{Activity, Kind, RunState};
use crate::span_parent::of_run;
use crate::span_scope::{Ending, Recorder, SpanScope};
use crate::spans::{known, provider_name};
use crate::{ContentKind, content};

/// Records the span attributes and the metrics of a tool call when the call ends.
pub(crate) struct ToolRecorder {
    config: Arc<Config>,
    /// Attributes of the call's metrics. `None` if metrics are disabled.
    attributes: Option<Attributes>,
}

/// Begins a tool call. Returns `None` if neither a span nor metrics would be recorded.
pub(crate) fn open(
    config: &Arc<Config>,
    run: Option<&Arc<RunState>>,
    provider: &str,
    called: &CalledTool<'_>,
) -> Option<SpanScope<ToolRecorder>> {
    // The call is counted even without a span, because the number is in the metrics of the run.
    if let Some(run) = run {
        run.count_tool_call();
    }
    let make = || begin(config, run, called);
    let span = of_run(config, run, make);
    if config.captures_in_spans()
        && let Some(record) = Record::of(&span).filter(Record::is_recorded)
        && let Some(text) =
            config.content.captured(ContentKind::ToolArguments, called.call.input.clone())
    {
        record.text("gen_ai.tool.call.arguments", &text);
    }
    let attributes =
        config.instruments.is_enabled().then(|| attributes(config, run, provider, called.name));
    if span.is_disabled() && attributes.is_none() {
        return None;
    }
    let activity = Activity::new(config, run, Kind::Other);
    Some(SpanScope::new(span, activity, ToolRecorder { config: config.clone(), attributes }))
}

/// A tool call, with the name and the description of the called tool.
pub(crate) struct CalledTool<'a> {
    call: &'a ToolCall,
    name: &'a str,
    description: Option<&'a str>,
}

impl<'a> CalledTool<'a> {
    /// Finds the called tool in `offered`. If the tool does not exist, its name is replaced by `_OTHER`. The model
    /// wrote that name, so it may contain anything.
    pub(crate) fn new(call: &'a ToolCall, offered: &'a [ToolDefinition]) -> Self {
        match offered.iter().find(|tool| tool.name == call.name) {
            Some(tool) => Self { call, name: &tool.name, description: known(&tool.description) },
            None => Self { call, name: "_OTHER", description: None },
        }
    }
}

/// Creates the span. `neuron-mcp` records the MCP attributes on this span if the tool sends an MCP request.
fn begin(config: &Config, run: Option<&Arc<RunState>>, called: &CalledTool<'_>) -> Span {
    let run = run.map(|run| (known(run.agent()), known(run.conversation())));
    // Version 1.41 lists neither the agent's name nor the conversation's id for this span. The id is recorded
    // nevertheless. Version 1.41 defines the id for everything in a conversation, and backends find tool calls by the
    // id. Later versions list the agent's name.
    let agent = run.filter(|_| config.conventions.is_latest()).and_then(|(agent, _)| agent);
    tracing::info_span!(
        target: "neuron_otel",
        "execute_tool",
        otel.name = config.conventions.span_name("execute_tool", called.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = called.name,
        gen_ai.tool.call.id = known(&called.call.id),
        gen_ai.tool.description = called.description,
        gen_ai.tool.r#type = "function",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = run.and_then(|(_, conversation)| conversation),
        gen_ai.tool.is_error = Empty,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        mcp.method.name = Empty,
        mcp.protocol.version = Empty,
        mcp.session.id = Empty,
        jsonrpc.request.id = Empty,
        network.transport = Empty,
        network.protocol.name = Empty,
        server.address = Empty,
        server.port = Empty,
        rpc.response.status_code = Empty,
    )
}

/// Returns the attributes of the call's metrics.
fn attributes(
    config: &Config,
    run: Option<&Arc<RunState>>,
    provider: &str,
    name: &str,
) -> Attributes {
    let mut attributes = Attributes::with_capacity(4);
    attributes.push(KeyValue::new("gen_ai.tool.name", name.to_owned()));
    if config.conventions.is_latest() {
        attributes.push(KeyValue::new("gen_ai.tool.type", "function"));
        if let Some(agent) = run.map(|run| run.agent()).and_then(known) {
            attributes.push(KeyValue::new("gen_ai.agent.name", agent.to_owned()));
        }
    } else {
        attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
        let provider = provider_name(provider);
        attributes.push(KeyValue::new("gen_ai.provider.name", provider.to_owned()));
    }
    attributes
}

impl Recorder for ToolRecorder {
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64) {
        let output = match ending {
            Ending::Outcome(Outcome::ToolOutput(output)) => Some(*output),
            _ => None,
        };
        // A failed result is a failure of the tool call, but not of the run.
        let failure = match output {
            Some(output) => output.is_error.then(Failure::of_tool_result),
            None => ending.failure(self.config.captures_error_texts()),
        };
        if let Some(record) = Record::of(span).filter(Record::is_recorded) {
            if let Some(failure) = &failure {
                record.failure(failure);
            }
            if let Some(output) = output {
                // Only the book's conventions have this attribute. The other conventions use `error.type`.
                if self.config.conventions.is_book() {
                    record.flag("gen_ai.tool.is_error", output.is_error);
                }
                if self.config.captures_in_spans() {
                    let value = content::tool_result(output);
                    if let Some(text) = self.config.content.captured(ContentKind::ToolResult, value)
                    {
                        record.text("gen_ai.tool.call.result", &text);
                    }
                }
            }
        }
        if let Some(attributes) = self.attributes
            && let Some(instruments) = self.config.instruments.get(self.config.conventions)
        {
            instruments.tool(seconds, failure.as_ref(), attributes);
        }
    }
}

/// The scope of a tool call in a durable run that replays. A call whose result is in the journal is never polled, and
/// is not recorded. Any other call begins with its first poll.
pub(crate) enum ReplayedCall {
    /// The call has not begun, or is not recorded. The first poll takes and calls this function to begin the call. The
    /// function returns `None` if the call is not recorded.
    Waiting(Option<Box<dyn FnOnce() -> Option<SpanScope<ToolRecorder>> + Send>>),
    /// The call has begun and is recorded.
    Begun(Box<SpanScope<ToolRecorder>>),
}

impl ReplayedCall {
    pub(crate) fn new(
        config: &Arc<Config>,
        run: Option<Arc<RunState>>,
        provider: &str,
        called: &CalledTool<'_>,
    ) -> Self {
        let (config, provider) = (config.clone(), provider.to_owned());
        let (call, name) = (called.call.clone(), called.name.to_owned());
        let description = called.description.map(str::to_owned);
        Self::Waiting(Some(Box::new(move || {
            let called =
                CalledTool { call: &call, name: &name, description: description.as_deref() };
            open(&config, run.as_ref(), &provider, &called)
        })))
    }
}

impl OperationScope for ReplayedCall {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        if let Self::Waiting(begin) = self
            && let Some(scope) = begin.take().and_then(|begin| begin())
        {
            *self = Self::Begun(Box::new(scope));
        }
        match self {
            Self::Waiting(_) => poll(),
            Self::Begun(scope) => scope.around(poll),
        }
    }

    fn end(self: Box<Self>, outcome: Outcome<'_>) {
        if let Self::Begun(scope) = *self {
            scope.end(outcome);
        }
    }
}
