//! Tool calls.

use std::sync::Arc;

use neuron_types::{OperationScope, Outcome, ToolCall, ToolDefinition};
use opentelemetry::KeyValue;
use tracing::Span;
use tracing::field::Empty;

use crate::config::Config;
use crate::failure::Failure;
use crate::metrics::Attributes;
use crate::placement::of_run;
use crate::record::Record;
use crate::run_state::{Activity, Kind, RunState};
use crate::span_scope::{Ending, SpanScope, Work};
use crate::spans::{known, provider_name};
use crate::{ContentKind, content};

/// A tool call that is under way.
pub(crate) struct ToolWork {
    config: Arc<Config>,
    /// What is measured of it, if anything is.
    attributes: Option<Attributes>,
}

/// Begins a call. `None` if nobody would hear of it.
pub(crate) fn open(
    config: &Arc<Config>,
    run: Option<&Arc<RunState>>,
    provider: &str,
    called: &Called<'_>,
) -> Option<SpanScope<ToolWork>> {
    if let Some(run) = run {
        run.count_tool_call();
    }
    let make = || begin(config, run, called);
    let span = of_run(config, run, make);
    if config.captures_in_spans()
        && let Some(record) = Record::of(&span).filter(Record::is_read)
        && let Some(text) =
            config.content.told(ContentKind::ToolArguments, called.call.input.clone())
    {
        record.text("gen_ai.tool.call.arguments", &text);
    }
    let attributes =
        config.instruments.are_on().then(|| attributes(config, run, provider, called.name));
    if span.is_disabled() && attributes.is_none() {
        return None;
    }
    let activity = Activity::new(config, run, Kind::Other);
    Some(SpanScope::new(span, activity, ToolWork { config: config.clone(), attributes }))
}

/// A call, and the tool that is called.
pub(crate) struct Called<'a> {
    call: &'a ToolCall,
    name: &'a str,
    description: Option<&'a str>,
}

impl<'a> Called<'a> {
    /// A name that no tool has is what the model wrote: it may be anything, and is not told.
    pub(crate) fn new(call: &'a ToolCall, offered: &'a [ToolDefinition]) -> Self {
        match offered.iter().find(|tool| tool.name == call.name) {
            Some(tool) => Self { call, name: &tool.name, description: known(&tool.description) },
            None => Self { call, name: "_OTHER", description: None },
        }
    }
}

/// The span. The names of MCP are for the request that a tool makes: `neuron-mcp` records them here.
fn begin(config: &Config, run: Option<&Arc<RunState>>, called: &Called<'_>) -> Span {
    let run = run.map(|run| (known(run.agent()), known(run.conversation())));
    // Version 1.41 lists neither attribute for this span. It defines the conversation's id for whatever belongs to a
    // conversation, and backends find a tool call by it. The agent's name is told since.
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

impl Work for ToolWork {
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64) {
        let output = match ending {
            Ending::Outcome(Outcome::ToolOutput(output)) => Some(*output),
            _ => None,
        };
        let failure = match output {
            Some(output) => output.is_error.then(Failure::of_tool_result),
            None => ending.failure(self.config.tells_all_errors()),
        };
        if let Some(record) = Record::of(span).filter(Record::is_read) {
            if let Some(failure) = &failure {
                record.failure(failure);
            }
            if let Some(output) = output {
                if self.config.conventions.is_book() {
                    record.flag("gen_ai.tool.is_error", output.is_error);
                }
                if self.config.captures_in_spans() {
                    let value = content::tool_result(output);
                    if let Some(text) = self.config.content.told(ContentKind::ToolResult, value) {
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

/// A call of a run that repeats what an earlier attempt did: it begins when a durable context really runs it, and
/// of one that it finds in its journal nothing is told.
pub(crate) enum ReplayedCall {
    Waiting(Option<Box<dyn FnOnce() -> Option<SpanScope<ToolWork>> + Send>>),
    Begun(Box<SpanScope<ToolWork>>),
}

impl ReplayedCall {
    pub(crate) fn new(
        config: &Arc<Config>,
        run: Option<Arc<RunState>>,
        provider: &str,
        called: &Called<'_>,
    ) -> Self {
        let (config, provider) = (config.clone(), provider.to_owned());
        let (call, name) = (called.call.clone(), called.name.to_owned());
        let description = called.description.map(str::to_owned);
        Self::Waiting(Some(Box::new(move || {
            let called = Called { call: &call, name: &name, description: description.as_deref() };
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
