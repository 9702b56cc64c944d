//! Layers around the model calls of a run, similar to the middleware around tool calls.

mod delta_sink;
mod prepare_turn;
mod retry;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    CompletionResponse, LoopError, Message, RequestRef, Role, RunTools, TokenUsage,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

pub use delta_sink::{BufferedDeltas, DeltaSink, DeltaSlot};
pub use prepare_turn::{PrepareTurn, TurnSetup};
pub use retry::Retry;

/// Read-only view of a run for layers and other callbacks.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunView<'a> {
    /// Number of model calls of this run that have returned a response. Before a model call, this number is also the
    /// zero-based index of the current turn.
    pub turns: usize,
    /// Number of tool calls that were started in this run.
    pub tool_calls: usize,
    /// Tokens that this run has used so far.
    pub usage: &'a TokenUsage,
    /// The conversation, including messages from before this run.
    pub messages: &'a [Message],
    /// The tools of the agent. They stay the same for the whole run.
    pub tools: RunTools<'a>,
    /// Names of tools that the last response could not call. The request did not offer the tool, or the model had not
    /// found a deferred tool. Only set for stop conditions.
    pub refused: &'a [String],
}

impl<'a> RunView<'a> {
    /// Creates a view from its parts. The agent has no tools.
    #[must_use]
    pub fn new(
        turns: usize,
        tool_calls: usize,
        usage: &'a TokenUsage,
        messages: &'a [Message],
    ) -> Self {
        Self { turns, tool_calls, usage, messages, tools: RunTools::default(), refused: &[] }
    }

    /// Returns the same view with the tools of the agent.
    #[must_use]
    pub fn with_tools(self, tools: RunTools<'a>) -> Self {
        Self { tools, ..self }
    }

    /// Returns the same view with the names of [refused](Self::refused) tools.
    #[must_use]
    pub fn with_refused(self, refused: &'a [String]) -> Self {
        Self { refused, ..self }
    }

    /// Returns `true` if the last response of the model called this tool. If the agent defers tools, calls through
    /// [`CALL_TOOL`](crate::CALL_TOOL) are calls of the tools that they name.
    ///
    /// Calls of [refused](Self::refused) tools do not count. Calls that failed or were denied do.
    #[must_use]
    pub fn called(&self, tool: &str) -> bool {
        let last = self.messages.iter().rfind(|message| message.role == Role::Assistant);
        let is_called = |answer| self.tools.calls_in(answer).any(|call| call.name == tool);
        last.is_some_and(is_called) && !self.refused.iter().any(|refused| refused == tool)
    }
}

/// A model call, as passed to a [`ModelLayer`].
///
/// To change the request, create a new value with [`with_request`](Self::with_request). The type is `Copy`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ModelCall<'a> {
    /// The request to the model.
    pub request: RequestRef<'a>,
    /// The state of the run before this call.
    pub run: RunView<'a>,
    /// The messages after the model's last response that were not in the request of any earlier model call.
    pub new_messages: &'a [Message],
    /// Text of the incomplete response that the provider paused and that this call continues. Empty if the provider
    /// paused no response.
    pub said_before: &'a str,
    /// Name of the tool with which the model returns the [typed output](crate::OutputMode::Tool) of the run. `None` if
    /// there is no such tool.
    pub output_tool: Option<&'a str>,
    /// Names of deferred tools that the model must not call in response to this request. Calls of these tools fail like
    /// calls of unknown tools. The tools stay in the list that a [vendor searches](RequestRef::deferred_tools), because a
    /// change of the list would discard the vendor's prompt cache.
    pub refused: &'a [&'a str],
    /// Set if a limit ends the run after this call. A layer must then not repeat the call.
    pub is_last: bool,
    /// Set if a durable engine makes the call. The engine retries failed calls itself.
    pub is_durable: bool,
    /// Cancelled when the run is cancelled. A layer that awaits anything other than `next` must observe the token.
    pub cancellation: &'a CancellationToken,
}

impl<'a> ModelCall<'a> {
    /// Creates a call from its request, the state of the run, and the cancellation token. All other fields have empty
    /// values.
    #[must_use]
    pub fn new(
        request: RequestRef<'a>,
        run: RunView<'a>,
        cancellation: &'a CancellationToken,
    ) -> Self {
        Self {
            request,
            run,
            new_messages: &[],
            said_before: "",
            output_tool: None,
            refused: &[],
            is_last: false,
            is_durable: false,
            cancellation,
        }
    }

    /// Creates the error with which a layer rejects an input or a response.
    ///
    /// The error text contains `reason`. If the run has started tool calls, the text also contains their number and
    /// says what happened to the latest tool results. Set `are_results_removed` if the layer
    /// [removes](ModelNext::take_back_input) them from the conversation.
    #[must_use]
    pub fn rejected(&self, reason: impl Into<String>, are_results_removed: bool) -> LoopError {
        let mut reason = reason.into();
        let results = match are_results_removed {
            true => "the latest results are removed from the conversation",
            false => "their results stay in the conversation",
        };
        // FAULT a rejection takes turns for tool calls: `tool_calls` -> `turns`
        match self.run.tool_calls {
            0 => {}
            1 => reason += &format!(" (before that, 1 tool call ran; {results})"),
            calls => reason += &format!(" (before that, {calls} tool calls ran; {results})"),
        }
        LoopError::HookTerminated(reason)
    }

    /// Returns the same call with another request.
    #[must_use]
    pub fn with_request<'b>(self, request: RequestRef<'b>) -> ModelCall<'b>
    where
        'a: 'b,
    {
        ModelCall { request, ..self }
    }

    /// Returns the same call with other [refused](Self::refused) tools.
    #[must_use]
    pub fn with_refused<'b>(self, refused: &'b [&'b str]) -> ModelCall<'b>
    where
        'a: 'b,
    {
        ModelCall { refused, ..self }
    }
}

/// A layer around an agent's model calls, for example a guardrail, a retry or a change of the request.
///
/// A layer has access to the state of the run. For rate limits, limits that agents share, and failover, which do not
/// need this state, wrap the provider instead. `neuron-tower` applies any tower layer to a provider.
///
/// | | `ModelLayer` | tower layer, with `neuron-tower` |
/// |---|---|---|
/// | wraps | the model calls of a run | a provider |
/// | receives | the run, new messages, the whole response | one request and its outcome |
/// | may | change the request, reject the response, buffer deltas, repeat the call | delay, limit, repeat the call |
/// | runs again on replay | yes | no, because the engine journals the call around it |
///
/// # Contract
///
/// - `next` returns a complete response, even if the response is streamed. The deltas of a streamed response are sent
///   to [`ModelNext::sink`]. A layer may replace the sink to inspect or buffer the deltas.
/// - A layer that runs `next` again must first send [`StreamEvent::Reset`](crate::StreamEvent::Reset) to the sink.
/// - Each run of `next` counts as one request for limits, budgets and hooks.
/// - Layers run again when a durable engine replays a run. They must not read the clock or random numbers.
/// - An error ends the run. The response is then not added to the conversation.
/// - A layer that removes tools from the request must also add deferred tools to [`ModelCall::refused`]. If it removes
///   [`CALL_TOOL`](crate::CALL_TOOL), the model can call no deferred tool.
///
/// # Example
///
/// ```
/// use neuron_types::{CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext};
///
/// /// Repeats the call after an empty response.
/// struct AskAgain;
///
/// impl ModelLayer for AskAgain {
///     async fn call(&self, call: ModelCall<'_>, next: ModelNext<'_>) -> Result<CompletionResponse, LoopError> {
///         let answer = next.run(call).await?;
///         match !answer.message.has_content() && !call.is_last {
///             true => next.run(call).await,
///             false => Ok(answer),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer around calls of a model",
    note = "implement `ModelLayer`"
)]
pub trait ModelLayer: WasmCompatSend + WasmCompatSync {
    /// Makes the model call with `next`, or returns a response without a call.
    ///
    /// # Errors
    ///
    /// The errors of `next`. To end the run for another reason, return [`LoopError::HookTerminated`].
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the run is cancelled or dropped.
    fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> impl Future<Output = Result<CompletionResponse, LoopError>> + WasmCompatSend;
}

/// The boxed future of a model's response.
pub type ModelResponseFuture<'a> = WasmBoxedFuture<'a, Result<CompletionResponse, LoopError>>;

/// A boxed [`ModelLayer`] of any type. Clones of the box share the layer.
#[derive(Clone)]
pub struct BoxedLayer(Arc<dyn LayerDyn>);

impl BoxedLayer {
    /// Creates a box for a layer of any type.
    pub fn new(layer: impl ModelLayer + 'static) -> Self {
        Self(Arc::new(layer))
    }
}

impl fmt::Debug for BoxedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedLayer").finish_non_exhaustive()
    }
}

/// Object-safe form of [`ModelLayer`].
trait LayerDyn: WasmCompatSend + WasmCompatSync {
    fn call_dyn<'a>(&'a self, call: ModelCall<'a>, next: ModelNext<'a>) -> ModelResponseFuture<'a>;
}

impl<L: ModelLayer> LayerDyn for L {
    fn call_dyn<'a>(&'a self, call: ModelCall<'a>, next: ModelNext<'a>) -> ModelResponseFuture<'a> {
        Box::pin(self.call(call, next))
    }
}

/// Makes the actual model call, inside all layers. Implemented by the agent loop.
pub trait ModelEndpoint: WasmCompatSend + WasmCompatSync {
    /// Calls the model and returns the complete response. If `sink` is set, the response is streamed and its deltas are
    /// sent to `sink`.
    fn make<'a>(
        &'a self,
        call: ModelCall<'a>,
        sink: Option<&'a dyn DeltaSink>,
    ) -> ModelResponseFuture<'a>;

    /// Schedules the removal of messages from the conversation. The loop removes them after the layer has returned its
    /// error.
    fn take_back(&self, what: TakeBack);
}

/// A part of the conversation that the loop removes because a layer rejected it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeBack {
    /// The call's [new messages](ModelCall::new_messages), except tool results.
    Input {
        /// Set to also replace each new tool result with a placeholder text.
        with_tool_results: bool,
    },
    /// The incomplete response that the provider paused and that the call [continues](ModelCall::said_before).
    PausedAnswer,
}

/// The part of a model call that a layer wraps. It consists of the inner layers and the actual model call.
///
/// The type is `Copy`, so a layer can run the call more than once.
#[derive(Clone, Copy)]
pub struct ModelNext<'a> {
    /// The layers inside the current layer, outermost first.
    layers: &'a [BoxedLayer],
    /// Makes the actual model call after all layers.
    endpoint: &'a dyn ModelEndpoint,
    /// Receives the deltas. `None` if the response is not streamed.
    sink: Option<&'a dyn DeltaSink>,
}

impl<'a> ModelNext<'a> {
    /// Creates a chain of `layers`, outermost first, around the calls of `endpoint`.
    #[must_use]
    pub fn new(
        layers: &'a [BoxedLayer],
        endpoint: &'a dyn ModelEndpoint,
        sink: Option<&'a dyn DeltaSink>,
    ) -> Self {
        Self { layers, endpoint, sink }
    }

    /// Runs the call through the inner layers and makes the actual model call.
    ///
    /// # Errors
    ///
    /// The error of the provider, of a hook or of an inner layer. If a limit forbids another model call, the error of
    /// this limit.
    pub fn run<'b>(self, call: ModelCall<'b>) -> ModelResponseFuture<'b>
    where
        'a: 'b,
    {
        match self.layers {
            // FAULT the last layer is the outermost: `[layer, layers @ ..]` -> `[layers @ .., layer]`
            [layer, layers @ ..] => layer.0.call_dyn(call, ModelNext { layers, ..self }),
            [] => self.endpoint.make(call, self.sink),
        }
    }

    /// Returns the receiver of the deltas. Returns `None` if the response is not streamed.
    #[must_use]
    pub fn sink(&self) -> Option<&'a dyn DeltaSink> {
        self.sink
    }

    /// Returns the same chain with another receiver of the deltas.
    #[must_use]
    pub fn with_sink<'b>(self, sink: &'b dyn DeltaSink) -> ModelNext<'b>
    where
        'a: 'b,
    {
        ModelNext { sink: Some(sink), ..self }
    }

    /// Requests the removal of this model call's input from the conversation. The input is removed when the layer
    /// returns an error.
    ///
    /// - Removed are the new user messages and the [injected](crate::Injector) reminders after them.
    /// - Input that an earlier model call of this turn has already sent stays in the conversation.
    /// - New tool results stay too. If `with_tool_results` is set, their contents are replaced with a placeholder text.
    pub fn take_back_input(&self, with_tool_results: bool) {
        self.endpoint.take_back(TakeBack::Input { with_tool_results });
    }

    /// Requests the removal of the paused response that this call continues. A paused response is incomplete because
    /// the provider interrupted it. The response is removed from the conversation when the layer returns an error.
    pub fn take_back_paused_answer(&self) {
        self.endpoint.take_back(TakeBack::PausedAnswer);
    }
}

impl fmt::Debug for ModelNext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layers, streams) = (self.layers.len(), self.sink.is_some());
        f.debug_struct("ModelNext")
            .field("layers", &layers)
            .field("streams", &streams)
            .finish_non_exhaustive()
    }
}
