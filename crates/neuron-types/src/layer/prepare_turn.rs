//! A callback that may change the request of each turn.

use std::collections::HashSet;
use std::fmt;

use crate::{
    CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext, RequestRef, RequestSettings,
    RunView, SystemPrompt, ToolDefinition, WasmCompatSend, WasmCompatSync,
};

/// The next model request, as the callback of a [`PrepareTurn`] receives it. Changes apply to this request only.
#[derive(Debug)]
pub struct TurnSetup<'a> {
    /// The state of the run.
    pub run: RunView<'a>,
    /// The options of the request, such as the model and the tool choice.
    pub settings: RequestSettings,
    /// The system prompt. An empty prompt is not sent.
    pub system_prompt: SystemPrompt,
    /// All tools of the request, including the tool `output_tool`.
    tools: &'a [ToolDefinition],
    /// Name of the tool with which the model returns the output of a typed run. This tool is hidden from the callback
    /// and cannot be removed.
    output_tool: Option<&'a str>,
    /// A flag for each element of `tools`, set if the model is offered the tool.
    offered: Vec<bool>,
    /// The definitions of the deferred tools.
    deferred: &'a [ToolDefinition],
    /// Names of the deferred tools that the model must not call.
    refused: HashSet<&'a str>,
}

impl<'a> TurnSetup<'a> {
    /// Copies the options and the system prompt from a model call. Initially the model is offered all tools of the
    /// call.
    fn new(call: &ModelCall<'a>) -> Self {
        let tools = call.request.tools;
        let offered = vec![true; tools.len()];
        let system_prompt = call.request.system.cloned().unwrap_or_default();
        let settings = call.request.to_settings();
        Self {
            run: call.run,
            settings,
            system_prompt,
            tools,
            output_tool: call.output_tool,
            offered,
            deferred: call.run.tools.deferred.unwrap_or_default(),
            refused: call.refused.iter().copied().collect(),
        }
    }

    /// Returns the tools that the model is offered, in registration order. Deferred tools are not included.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.tools.iter().zip(&self.offered);
        let shown = tools.filter(|(tool, offered)| **offered && !self.is_output(tool));
        shown.map(|(tool, _)| tool)
    }

    /// Removes the tools for which `is_offered` returns `false` from this request.
    ///
    /// If the model calls a removed tool nevertheless, the call fails like a call of an unknown tool.
    ///
    /// If the agent defers tools, `is_offered` is called for each deferred tool too. The model then cannot call a
    /// deferred tool for which it returns `false`, even if the model has found the tool.
    pub fn retain_tools(&mut self, mut is_offered: impl FnMut(&ToolDefinition) -> bool) {
        let output_tool = self.output_tool;
        for (tool, offered) in self.tools.iter().zip(&mut self.offered) {
            let is_output = output_tool == Some(&*tool.name);
            // FAULT a callback that takes one tool away takes all: `(is_output || is_offered(tool))` -> `is_output &&
            //     is_offered(tool)`
            *offered = *offered && (is_output || is_offered(tool));
        }
        for tool in self.deferred {
            if !self.refused.contains(&*tool.name) && !is_offered(tool) {
                self.refused.insert(&tool.name);
            }
        }
    }

    fn is_output(&self, tool: &ToolDefinition) -> bool {
        self.output_tool == Some(&*tool.name)
    }

    /// Returns the definitions of the offered tools. Returns `None` if no tool was removed.
    fn fewer_tools(&self) -> Option<Vec<ToolDefinition>> {
        let tools = self.tools.iter().zip(&self.offered);
        let kept = tools.filter(|(_, offered)| **offered).map(|(tool, _)| tool.clone());
        self.offered.contains(&false).then(|| kept.collect())
    }

    /// Returns the names of the deferred tools that the model must not call, in registration order.
    fn refused_tools(&self) -> Vec<&'a str> {
        let names = self.deferred.iter().map(|tool| &*tool.name);
        names.filter(|name| self.refused.contains(name)).collect()
    }
}

/// A [layer](ModelLayer) with a callback that may change each request.
///
/// # Example
///
/// ```
/// use neuron_types::{BoxedLayer, PrepareTurn, ToolChoice};
///
/// let layer = PrepareTurn::new(|turn| {
///     if turn.run.turns == 0 {
///         turn.settings.tool_choice = Some(ToolChoice::Required);
///         turn.retain_tools(|tool| tool.name == "search");
///     }
/// });
/// # BoxedLayer::new(layer);
/// ```
pub struct PrepareTurn<F>(F);

impl<F: Fn(&mut TurnSetup<'_>)> PrepareTurn<F> {
    /// Creates a layer from a callback.
    pub fn new(callback: F) -> Self {
        Self(callback)
    }
}

impl<F> fmt::Debug for PrepareTurn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrepareTurn").finish_non_exhaustive()
    }
}

impl<F> ModelLayer for PrepareTurn<F>
where
    F: Fn(&mut TurnSetup<'_>) + WasmCompatSend + WasmCompatSync,
{
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let mut turn = TurnSetup::new(&call);
        (self.0)(&mut turn);
        let (fewer_tools, refused) = (turn.fewer_tools(), turn.refused_tools());
        let TurnSetup { mut settings, system_prompt, .. } = turn;
        if call.is_last {
            // The loop sets the tool choice of a run's last call.
            settings.tool_choice = call.request.tool_choice.cloned();
        }
        let request = RequestRef {
            system: (!system_prompt.is_empty()).then_some(&system_prompt),
            // FAULT tools that a callback takes away are sent nevertheless:
            //     `fewer_tools.as_deref().unwrap_or(call.request.tools)` -> `call.request.tools`
            tools: fewer_tools.as_deref().unwrap_or(call.request.tools),
            ..call.request
        };
        let call = call.with_request(request.with_settings(&settings));
        next.run(call.with_refused(&refused)).await
    }
}
