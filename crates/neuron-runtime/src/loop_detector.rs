//! A hook that warns a model that repeats its tool calls, and then ends the run ([`LoopDetector`]).

mod found;
mod step;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use neuron_types::{
    BoxedLayer, CompletionResponse, HookAction, HookAttachment, HookError, HookEvent,
    InjectionPoint, Injector, LoopError, ModelCall, ModelLayer, ModelNext, ObservabilityHook,
    RunTools, RunView,
};

use found::{Found, Pattern};
use step::{Step, Steps};

/// Warns a model that repeats its tool calls without progress, and then ends the run. Add it to the agent as a hook.
///
/// # Patterns
///
/// | setting | the model | results | warns at | ends the run at |
/// |---|---|---|---|---|
/// | [`repeated_calls`](Self::repeated_calls) | repeats a call, or alternates between two or three calls | the same | 3 | 5 |
/// | [`changing_results`](Self::changing_results) | repeats a call, or alternates between two or three calls | any | 10 | 20 |
/// | [`no_progress`](Self::no_progress) | calls the same tool with any arguments | the same | 5 | 10 |
///
/// - The numbers count consecutive responses of the model. For alternating calls, they count how often the sequence of
///   calls was made. Any other call starts the count again.
/// - Calls are the same if the names of their tools and their arguments are equal as JSON. The order of keys does not
///   matter.
/// - Parallel calls of one response are compared together, in any order. Equal calls within one response count once. A
///   response that also makes a new call is not a repetition.
/// - No progress is only counted for results that are errors, and for tools that only read. Other tools often return
///   the same text after each success. A tool only reads if its
///   [`read_only_hint`](neuron_types::ToolAnnotations::read_only_hint) is `true`, or if it was passed to
///   [`read_only`](Self::read_only).
/// - Calls of [exempt](Self::exempt) tools are ignored. Exempt the tools that the model polls.
/// - If the agent [defers tools](neuron_types::CALL_TOOL), a call of `call_tool` counts as a call of the tool that it
///   names.
/// - Only calls of the present run count, since the last message of the user. Calls that a context strategy removed do
///   not count.
///
/// # Warning
///
/// The warning is a system message at the end of the conversation, like the texts of an [`Injector`]. It names the
/// tools, and tells the model what to do instead. It is repeated with each further repetition until the run ends, and a
/// compaction keeps only the last of equal warnings. Earlier messages do not change, so the provider's cache stays
/// valid. The warning does not quote arguments, because a model may have copied them from an untrusted text. It is also
/// logged with `tracing::warn!`.
///
/// # End of the run
///
/// The run ends with [`LoopError::HookTerminated`], which names the calls with their arguments, and the count. The
/// response with the last repetition is not added to the conversation, and its calls do not run, except calls that
/// [began early](neuron_types::LoopConfig::early_tools). A run without progress ends after its last calls have run,
/// before the next model call. The conversation stays valid, and the agent can continue with another message.
///
/// The last call of a run that [reached a limit](neuron_types::OnLimit::Finalize) is not checked.
///
/// # Runs that share the detector
///
/// The detector has no state. It decides from the conversation, so any number of runs can share it. A durable run that
/// is replayed, and a run that continues in another process, get the same decisions. [Sub-agents] inherit the
/// detector with the other hooks, and each run counts its own calls. If the run of a sub-agent ends, the calling run ends
/// with the same error.
///
/// The [`read_only_hint`](neuron_types::ToolAnnotations::read_only_hint) of a deferred tool is not in the conversation.
/// If such a tool may be removed before a durable run is replayed, pass its name to [`read_only`](Self::read_only).
///
/// A check compares the last response with the three before it, without the responses that make no calls or only calls of
/// exempt tools. Only if they are the same does it read further back, to the first response that differs. A last response
/// that makes only calls of exempt tools is not checked, so polling for a long time is cheap. If a run repeats its calls
/// without an end, because [`LoopThresholds::end`] is `None`, each check reads all repetitions.
///
/// [Sub-agents]: neuron_types::AgentTool
///
/// # Example
///
/// ```
/// use neuron_loop::{Agent, Conversation, LoopError};
/// use neuron_runtime::{LoopDetector, LoopThresholds};
/// use neuron_tool::{ToolRegistry, neuron_tool};
/// use neuron_types::ToolError;
/// # use neuron_testing::{Reply, ScriptedProvider};
/// # use serde_json::json;
///
/// /// Reads a file
/// #[neuron_tool]
/// async fn read_file(
///     /// The path of the file
///     path: String,
/// ) -> Result<String, ToolError> {
///     Ok(format!("{path} is empty"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = ScriptedProvider::new(
/// #     (1..=4).map(|id| Reply::tool_call(id.to_string(), "read_file", json!({ "path": "a.txt" }))),
/// # );
/// # let requests = provider.clone();
/// let mut tools = ToolRegistry::new();
/// tools.register(ReadFileTool);
/// let detector = LoopDetector::new()
///     .repeated_calls(LoopThresholds::new(2, 4)) // Warn at 2 equal calls, end the run at 4.
///     .exempt("wait_for_build");
/// let agent = Agent::builder(provider).tools(tools).hook(detector).build();
///
/// // The model reads the same file again and again.
/// let mut conversation = Conversation::new();
/// let error = agent.run(&mut conversation, "What is in a.txt?").await.unwrap_err();
/// let LoopError::HookTerminated(reason) = error else { panic!("{error:?}") };
/// assert_eq!(
///     reason,
///     "loop detector: the model made the call `read_file({\"path\":\"a.txt\"})` 4 times in a row, and the result did \
///      not change (before that, 3 tool calls ran; their results stay in the conversation)"
/// );
/// # let warnings = requests.requests().iter().map(|request| {
/// #     request.messages.iter().filter(|message| message.text().contains("in a row")).count()
/// # }).collect::<Vec<_>>();
/// # assert_eq!(warnings, [0, 0, 1, 2]);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LoopDetector {
    repeated_calls: LoopThresholds,
    changing_results: LoopThresholds,
    no_progress: LoopThresholds,
    /// Names of the tools whose calls are ignored.
    exempt: BTreeSet<String>,
    /// Names of the tools that only read, in addition to the tools whose annotation says so.
    read_only: BTreeSet<String>,
    layer: HookAttachment,
    injector: HookAttachment,
}

/// The numbers of repetitions at which a [`LoopDetector`] warns the model and ends the run.
///
/// A number below 2 means 2, because a single call is not a repetition. If `warn` is not less than `end`, the run ends
/// without a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopThresholds {
    /// Number of repetitions, including the first call, from which the model is warned. `None` means no warning.
    pub warn: Option<usize>,
    /// Number of repetitions, including the first call, at which the run ends. `None` means that the run does not end.
    pub end: Option<usize>,
}

impl LoopThresholds {
    /// Thresholds that never warn and never end a run.
    pub const NEVER: Self = Self { warn: None, end: None };

    /// Creates thresholds that warn the model from `warn` repetitions, and end the run at `end` repetitions.
    #[must_use]
    pub const fn new(warn: usize, end: usize) -> Self {
        Self { warn: Some(warn), end: Some(end) }
    }

    /// Returns `true` if the model is warned of a loop now. Of alternating calls, it is warned after the last call of
    /// the sequence.
    fn warns_of(self, found: Found) -> bool {
        let is_reached = self.warn.is_some_and(|warn| found.count >= warn.max(2));
        is_reached && found.is_complete && !self.ends_at(found)
    }

    fn ends_at(self, found: Found) -> bool {
        self.end.is_some_and(|end| found.count >= end.max(2))
    }
}

impl LoopDetector {
    /// Creates a detector with the default thresholds and without exempt tools.
    #[must_use]
    pub fn new() -> Self {
        Self {
            repeated_calls: LoopThresholds::new(3, 5),
            changing_results: LoopThresholds::new(10, 20),
            no_progress: LoopThresholds::new(5, 10),
            exempt: BTreeSet::new(),
            read_only: BTreeSet::new(),
            layer: HookAttachment::default(),
            injector: HookAttachment::default(),
        }
    }

    /// Sets the thresholds for repeated or alternating calls whose results do not change. Default: 3 and 5.
    #[must_use]
    pub fn repeated_calls(self, thresholds: LoopThresholds) -> Self {
        Self { repeated_calls: thresholds, ..self }
    }

    /// Sets the thresholds for repeated or alternating calls with any results. Default: 10 and 20.
    ///
    /// The default is high, because a changed result may be progress, for example of a tool that scrolls a page.
    #[must_use]
    pub fn changing_results(self, thresholds: LoopThresholds) -> Self {
        Self { changing_results: thresholds, ..self }
    }

    /// Sets the thresholds for calls with any arguments that return the same result. Only errors and the results of
    /// tools that only read count. Default: 5 and 10.
    #[must_use]
    pub fn no_progress(self, thresholds: LoopThresholds) -> Self {
        Self { no_progress: thresholds, ..self }
    }

    /// Ignores the calls of this tool.
    #[must_use]
    pub fn exempt(mut self, tool: impl Into<String>) -> Self {
        self.exempt.insert(tool.into());
        self
    }

    /// Counts equal results of this tool as no progress, like the results of a tool with the
    /// [`read_only_hint`](neuron_types::ToolAnnotations::read_only_hint).
    #[must_use]
    pub fn read_only(mut self, tool: impl Into<String>) -> Self {
        self.read_only.insert(tool.into());
        self
    }

    /// Returns the warning for the model before its next call. Returns `None` if there is no loop.
    fn warning(&self, steps: &mut Steps<'_>, tools: RunTools<'_>) -> Option<String> {
        // After a response without calls that count, the model has already been warned.
        if !steps.is_current() {
            return None;
        }
        let warned = |thresholds: LoopThresholds, found: Option<Found>| {
            let found = found.filter(|found| thresholds.warns_of(*found))?;
            Some((found, thresholds.end))
        };
        let (found, end) = warned(self.repeated_calls, self.repeated(steps))
            .or_else(|| warned(self.no_progress, self.stale(steps, tools)))
            .or_else(|| warned(self.changing_results, self.changing(steps)))?;
        Some(text::warning(found, end, steps, tools))
    }

    /// Returns the reason why the run ends with its last response. Returns `None` if the run may continue.
    fn repetition_error(&self, steps: &mut Steps<'_>) -> Option<String> {
        let repeated = self.repeated(steps).filter(|found| self.repeated_calls.ends_at(*found));
        let changing =
            || self.changing(steps).filter(|found| self.changing_results.ends_at(*found));
        let found = repeated.or_else(changing)?;
        Some(text::error(found, steps))
    }

    /// Returns the reason why the run ends before its next model call. Returns `None` if the run may continue.
    fn progress_error(&self, steps: &mut Steps<'_>, tools: RunTools<'_>) -> Option<String> {
        // Calls of exempt tools change nothing, so the earlier calls have already been checked.
        if !steps.is_current() {
            return None;
        }
        let found = self.stale(steps, tools).filter(|found| self.no_progress.ends_at(*found))?;
        Some(text::error(found, steps))
    }

    fn repeated(&self, steps: &mut Steps<'_>) -> Option<Found> {
        let is_on = self.repeated_calls != LoopThresholds::NEVER;
        let is_same = Step::has_calls_and_results_of;
        is_on.then(|| found::repetition(steps, Pattern::SameResults, is_same))?
    }

    fn changing(&self, steps: &mut Steps<'_>) -> Option<Found> {
        let is_on = self.changing_results != LoopThresholds::NEVER;
        is_on.then(|| found::repetition(steps, Pattern::AnyResults, Step::has_calls_of))?
    }

    fn stale<'a>(&self, steps: &mut Steps<'a>, tools: RunTools<'_>) -> Option<Found> {
        let only_reads = |name: &str| {
            let hint = tools.get(name).and_then(|tool| tool.annotations?.read_only_hint);
            hint == Some(true) || self.read_only.contains(name)
        };
        let is_same = |newer: &Step<'a>, older: &Step<'a>| {
            newer.has_results_of(older)
                && newer.changes_nothing(only_reads)
                && older.changes_nothing(only_reads)
        };
        let is_on = self.no_progress != LoopThresholds::NEVER;
        is_on.then(|| found::repetition(steps, Pattern::NoProgress, is_same))?
    }
}

impl Default for LoopDetector {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds the warnings as an [`Injector`], and the end of the run as a [`ModelLayer`]. Events of the run are ignored.
impl ObservabilityHook for LoopDetector {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.layer.warn(&event, "LoopDetector", "layer");
        self.injector.warn(&event, "LoopDetector", "injector");
        Ok(HookAction::Continue)
    }

    fn layer(&self) -> Option<BoxedLayer> {
        self.layer.attach();
        Some(BoxedLayer::new(self.clone()))
    }

    fn injector(&self) -> Option<Arc<dyn Injector>> {
        self.injector.attach();
        Some(Arc::new(self.clone()))
    }
}

impl Injector for LoopDetector {
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
        let mut steps = Steps::new(point.messages, point.run_turns, point.tools, &self.exempt);
        let warning = self.warning(&mut steps, point.tools);
        if let Some(warning) = &warning {
            // The event has no parent span, because span exporters export all events within a span.
            tracing::warn!(parent: None, warning, "the loop detector warns the model");
        }
        warning.into_iter().collect()
    }
}

impl ModelLayer for LoopDetector {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        if call.is_last {
            return next.run(call).await;
        }
        // A callback may have removed tools from the request, so the texts and hints use the tools of the agent.
        let RunView { messages, turns, tools, .. } = call.run;
        let steps = || Steps::new(messages, turns, tools, &self.exempt);
        if let Some(reason) = self.progress_error(&mut steps(), tools) {
            return Err(call.rejected(reason, false));
        }
        let response = next.run(call).await?;
        let reason = steps()
            .with_response(&response.message)
            .and_then(|mut steps| self.repetition_error(&mut steps));
        match reason {
            Some(reason) => Err(call.rejected(reason, false)),
            None => Ok(response),
        }
    }
}
