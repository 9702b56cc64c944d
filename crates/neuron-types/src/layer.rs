//! Layers around a call of a model, as middleware is around a call of a tool.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    CompletionResponse, DeltaSink, LoopError, Message, RequestRef, Role, TokenUsage,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// Counters and conversation of a run, as layers and other callbacks see them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunView<'a> {
    /// Answered calls of the model in this run. Before a call it is also the number of the turn, from zero.
    pub turns: usize,
    /// Tool calls that were started in this run.
    pub tool_calls: usize,
    /// Tokens of this run.
    pub usage: &'a TokenUsage,
    /// The conversation, with the messages from before this run.
    pub messages: &'a [Message],
}

impl<'a> RunView<'a> {
    /// Creates a view.
    #[must_use]
    pub fn new(
        turns: usize,
        tool_calls: usize,
        usage: &'a TokenUsage,
        messages: &'a [Message],
    ) -> Self {
        Self { turns, tool_calls, usage, messages }
    }

    /// Whether the last answer of the model called this tool.
    #[must_use]
    pub fn called(&self, tool: &str) -> bool {
        let last = self.messages.iter().rfind(|message| message.role == Role::Assistant);
        last.is_some_and(|answer| answer.tool_uses().any(|call| call.name == tool))
    }
}

/// A call of the model, as a [`ModelLayer`] sees it. It is `Copy`: write a new value to pass on a changed request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ModelCall<'a> {
    /// The request.
    pub request: RequestRef<'a>,
    /// The run so far.
    pub run: RunView<'a>,
    /// Messages of the conversation that are new: the model has not answered them, and no earlier call sent them.
    pub new_messages: &'a [Message],
    /// Text of a turn that the provider paused and that this call continues. Otherwise empty.
    pub said_before: &'a str,
    /// The tool whose arguments are the output of a typed run.
    pub output_tool: Option<&'a str>,
    /// Whether a limit ends the run after this call, so that no other call may follow it.
    pub is_last: bool,
    /// Whether a durable engine makes the call. It makes the call again itself after an error that may pass.
    pub is_durable: bool,
    /// Triggered when the run is cancelled. A layer that waits for something else than `next` waits for it too.
    pub cancellation: &'a CancellationToken,
}

impl<'a> ModelCall<'a> {
    /// Creates a call without new messages.
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
            is_last: false,
            is_durable: false,
            cancellation,
        }
    }

    /// Returns the error with which a layer rejects input or an answer. It says how many tools ran before, and whether
    /// their latest results were [removed](ModelNext::take_back_input).
    #[must_use]
    pub fn rejected(&self, reason: impl Into<String>, are_results_removed: bool) -> LoopError {
        let mut reason = reason.into();
        let results = match are_results_removed {
            true => "the latest results are removed from the conversation",
            false => "their results stay in the conversation",
        };
        match self.run.tool_calls {
            0 => {}
            1 => reason += &format!(" (before that, 1 tool call ran; {results})"),
            calls => reason += &format!(" (before that, {calls} tool calls ran; {results})"),
        }
        LoopError::HookTerminated(reason)
    }

    /// The same call with another request.
    #[must_use]
    pub fn with_request<'b>(self, request: RequestRef<'b>) -> ModelCall<'b>
    where
        'a: 'b,
    {
        ModelCall { request, ..self }
    }
}

/// A layer around the calls of an agent's model: a guardrail, a retry, a change of the request.
///
/// It knows the run. For what a provider needs wherever it is called (rates, limits that agents share, another server),
/// put a provider around the provider: `neuron-tower` does so with any layer of tower.
///
/// | | `ModelLayer` | a layer of tower, with `neuron-tower` |
/// |---|---|---|
/// | stands around | a call of a run | a provider |
/// | sees | the run, new messages, the whole answer | one request and its outcome |
/// | may | change the request, judge and reject the answer, hold text back, call again | delay, limit, call again |
/// | is called again on replay | yes | no: it lies inside the call that an engine journals |
///
/// # Contract
///
/// - The answer is always whole. What streams goes to [`ModelNext::sink`], which a layer may replace to look at deltas
///   or to hold them back. A layer that calls `next` again sends
///   [`StreamEvent::Reset`](crate::StreamEvent::Reset) before.
/// - Each run of `next` is one request for limits, budgets and hooks.
/// - Layers run again when a durable engine replays a run: they read neither a clock nor randomness.
/// - An error ends the run. The answer is then not part of the conversation.
///
/// # Example
///
/// ```
/// use neuron_types::{CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext};
///
/// /// Asks once more after an answer without content.
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
    /// Makes the call by running `next`, or answers it in another way.
    ///
    /// # Errors
    ///
    /// Errors of `next`, or [`LoopError::HookTerminated`] to end the run.
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

/// The future of a layer's answer.
pub type ModelAnswer<'a> = WasmBoxedFuture<'a, Result<CompletionResponse, LoopError>>;

/// A [`ModelLayer`] of any type. Clones share the layer.
#[derive(Clone)]
pub struct BoxedLayer(Arc<dyn LayerDyn>);

impl BoxedLayer {
    /// Erases the type of a layer.
    pub fn new(layer: impl ModelLayer + 'static) -> Self {
        Self(Arc::new(layer))
    }
}

impl fmt::Debug for BoxedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedLayer").finish_non_exhaustive()
    }
}

trait LayerDyn: WasmCompatSend + WasmCompatSync {
    fn call_dyn<'a>(&'a self, call: ModelCall<'a>, next: ModelNext<'a>) -> ModelAnswer<'a>;
}

impl<L: ModelLayer> LayerDyn for L {
    fn call_dyn<'a>(&'a self, call: ModelCall<'a>, next: ModelNext<'a>) -> ModelAnswer<'a> {
        Box::pin(self.call(call, next))
    }
}

/// The innermost link of the layers: it makes the call. The agent loop implements it.
pub trait ModelEndpoint: WasmCompatSend + WasmCompatSync {
    /// Makes a call. Deltas of the answer go to `sink`. Without one the answer is not streamed.
    fn make<'a>(&'a self, call: ModelCall<'a>, sink: Option<&'a dyn DeltaSink>) -> ModelAnswer<'a>;

    /// Notes what must leave the conversation when the call has failed.
    fn take_back(&self, what: TakeBack);
}

/// The part of a conversation that a layer rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeBack {
    /// The [new input](ModelCall::new_messages).
    Input {
        /// Whether results of tools leave too.
        with_tool_results: bool,
    },
    /// The turn that the provider [paused](ModelCall::said_before).
    PausedAnswer,
}

/// The inner layers and the call itself. It is `Copy`, so that a layer can run it more than once.
#[derive(Clone, Copy)]
pub struct ModelNext<'a> {
    layers: &'a [BoxedLayer],
    endpoint: &'a dyn ModelEndpoint,
    sink: Option<&'a dyn DeltaSink>,
}

impl<'a> ModelNext<'a> {
    /// Puts layers around a call, the outermost first.
    #[must_use]
    pub fn new(
        layers: &'a [BoxedLayer],
        endpoint: &'a dyn ModelEndpoint,
        sink: Option<&'a dyn DeltaSink>,
    ) -> Self {
        Self { layers, endpoint, sink }
    }

    /// Makes the call through the inner layers.
    ///
    /// # Errors
    ///
    /// Errors of the model, of a hook or of an inner layer, and the limit that forbids another call.
    pub fn run<'b>(self, call: ModelCall<'b>) -> ModelAnswer<'b>
    where
        'a: 'b,
    {
        match self.layers {
            [layer, layers @ ..] => layer.0.call_dyn(call, ModelNext { layers, ..self }),
            [] => self.endpoint.make(call, self.sink),
        }
    }

    /// Returns the receiver of the deltas. `None` means that the answer is not streamed.
    #[must_use]
    pub fn sink(&self) -> Option<&'a dyn DeltaSink> {
        self.sink
    }

    /// The same, with another receiver of the deltas.
    #[must_use]
    pub fn with_sink<'b>(self, sink: &'b dyn DeltaSink) -> ModelNext<'b>
    where
        'a: 'b,
    {
        ModelNext { sink: Some(sink), ..self }
    }

    /// Removes the new input from the conversation once this layer has returned its error. That is the new messages of
    /// the user with the reminders after them. Results of tools stay, unless `with_tool_results` is set. Then each gets
    /// a text that says that it was removed. Input that a call of this turn has already sent stays.
    pub fn take_back_input(&self, with_tool_results: bool) {
        self.endpoint.take_back(TakeBack::Input { with_tool_results });
    }

    /// Removes the turn that the provider paused, and that this call continued, from the conversation once this layer has
    /// returned its error.
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
