//! The ways to watch a run: as a future, as a stream of events, and as a sequence of steps.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::ops::DerefMut;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_types::{DeltaSlot, LoopError, Message, StreamEvent, WasmBoxedFuture, WasmCompatSend};
use serde_json::Value;

use super::{OwnedRun, Run, RunResult, Step, drive};
use crate::Agent;
use crate::conversation::Conversation;
use crate::parts::Reader;

impl<'a, O: 'a, C: DerefMut<Target = Conversation> + WasmCompatSend + 'a> Run<'a, O, C> {
    /// Returns the run as a stream of events. The run makes progress while the stream is polled.
    pub fn stream(mut self) -> RunStream<'a, O> {
        RunStream(Events::new(|slot| {
            Box::pin(async move { pin!(self.finish(Reader::Stream(&slot))).await })
        }))
    }

    /// Returns the run as a sequence of steps. The caller has control between two steps.
    pub fn steps(self) -> Steps<'a, O, C> {
        Steps(self)
    }

    /// Drives the run to its end. If the reader receives steps, returns after the next step. Returns `None` if the run
    /// has already ended.
    pub(super) async fn drive(&mut self, reader: Reader<'_>) -> Option<Result<Step<O>, LoopError>> {
        let parts = self.own.parts(&self.agent);
        let ledger = &mut self.conversation.ledger;
        let mut result = match pin!(drive(parts, ledger, &mut self.live, reader)).await? {
            Ok(Step::Ended(result)) => result,
            Ok(Step::Tools { calls, results }) => return Some(Ok(Step::Tools { calls, results })),
            Ok(Step::Compacted { old_tokens, new_tokens }) => {
                return Some(Ok(Step::Compacted { old_tokens, new_tokens }));
            }
            Err(error) => return Some(Err(error)),
        };
        let output = result.output.take();
        let raw = output.as_ref().map(Value::to_string);
        let output = (self.read)(output).map_err(|reason| {
            let raw = raw.unwrap_or_else(|| result.response.clone());
            ledger.invalid_output(raw, reason, &result.stop_reason)
        });
        Some(output.map(|output| Step::Ended(result.with_output(output))))
    }

    /// Drives the run to its end, and returns its outcome.
    async fn finish(&mut self, reader: Reader<'_>) -> Result<RunResult<O>, LoopError> {
        match pin!(self.drive(reader)).await {
            Some(Ok(Step::Ended(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }
}

impl<'a, O: 'a> IntoFuture for Run<'a, O> {
    type Output = Result<RunResult<O>, LoopError>;
    type IntoFuture = WasmBoxedFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { pin!(self.finish(Reader::Nobody)).await })
    }
}

impl<O: 'static> OwnedRun<O> {
    /// Splits the run into its events and a future to spawn. Dropping the events does not stop the run. The events end
    /// with the run, also if the future panics or is dropped. The conversation is then available from [the run's
    /// handle](crate::RunHandle::take_conversation).
    pub fn detach(
        mut self,
    ) -> (
        RunEvents,
        impl Future<Output = (Conversation, Result<RunResult<O>, LoopError>)> + WasmCompatSend + 'static,
    ) {
        let slot = DeltaSlot::default();
        self.conversation.events = Some(slot.clone());
        let events = RunEvents(slot.clone());
        (events, async move { pin!(self.end(Reader::Stream(&slot))).await })
    }

    /// Drives the run to its end. Returns the conversation with the outcome.
    async fn end(mut self, reader: Reader<'_>) -> (Conversation, Result<RunResult<O>, LoopError>) {
        let result = pin!(self.finish(reader)).await;
        let handle = self.conversation.handle.clone();
        // Dropping the run moves the conversation into the handle.
        // FAULT the conversation of a run that owns it is lost at its end: without the line
        drop(self);
        (handle.take_conversation().unwrap_or_default(), result)
    }
}

impl<O: 'static> IntoFuture for OwnedRun<O> {
    type Output = (Conversation, Result<RunResult<O>, LoopError>);
    type IntoFuture = WasmBoxedFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.end(Reader::Nobody))
    }
}

/// An item of the stream of a run. If the run fails, its error is the last item of the stream.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<O = ()> {
    /// The run made progress.
    Event(StreamEvent),
    /// The run has ended. No item follows.
    Ended(RunResult<O>),
}

type Outcome<O> = Result<RunResult<O>, LoopError>;

/// A run as a stream of events. [`Run::stream`](crate::Run::stream) creates it.
///
/// A slow reader slows the run and its tools. Dropping the stream stops the run. The stream ends with one
/// [`RunEvent::Ended`] or one error.
///
/// # Example
///
/// ```
/// use futures_util::TryStreamExt;
/// use neuron_loop::{Agent, Conversation, LoopError, RunEvent};
/// use neuron_types::StreamEvent;
///
/// # use neuron_testing::ScriptedProvider;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// # let agent = Agent::builder(ScriptedProvider::new(["Ownership is ..."])).build();
/// let mut chat = Conversation::new();
/// let mut events = agent.run(&mut chat, "Explain ownership").stream();
/// while let Some(event) = events.try_next().await? {
///     match event {
///         RunEvent::Event(StreamEvent::TextDelta(text)) => print!("{text}"),
///         RunEvent::Ended(result) => println!("[{} turns]", result.turns),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the run goes on only while the stream is polled"]
pub struct RunStream<'a, O = ()>(Events<'a, Outcome<O>>);

impl<'a, O> RunStream<'a, O> {
    /// Waits for the next event. Returns `None` after the last item.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    #[expect(clippy::should_implement_trait, reason = "it is a stream and no iterator")]
    pub fn next(&mut self) -> impl Future<Output = Option<Result<RunEvent<O>, LoopError>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

// The outcome is never pinned.
impl<O> Unpin for RunStream<'_, O> {}

impl<O> Stream for RunStream<'_, O> {
    type Item = Result<RunEvent<O>, LoopError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // FAULT a pause is not told to the reader of a stream: `Some(end.map(RunEvent::Ended))` -> `match end {
        //     Err(LoopError::ApprovalRequired(_)) => None, end => Some(end.map(RunEvent::Ended)) }`
        self.0.poll(cx, |event| Ok(RunEvent::Event(event)), |end| Some(end.map(RunEvent::Ended)))
    }
}

/// The future of a run, and the slot through which the run passes its events to the reader.
pub(crate) struct Events<'a, T> {
    /// The future of the run. `None` once it has ended.
    run: Option<WasmBoxedFuture<'a, T>>,
    slot: DeltaSlot,
    /// The outcome, until it is returned.
    end: Option<T>,
}

impl<'a, T> Events<'a, T> {
    pub(crate) fn new(run: impl FnOnce(DeltaSlot) -> WasmBoxedFuture<'a, T>) -> Self {
        let slot = DeltaSlot::default();
        Self { run: Some(run(slot.clone())), slot, end: None }
    }

    /// Polls the run, and returns its next event or its outcome as an item of a stream. Returns `None` after the
    /// outcome.
    pub(crate) fn poll<I>(
        &mut self,
        cx: &mut Context<'_>,
        event: impl FnOnce(StreamEvent) -> I,
        end: impl FnOnce(T) -> Option<I>,
    ) -> Poll<Option<I>> {
        // The run is taken out while it is polled. After a panic it is therefore not polled again.
        if let Some(mut run) = self.run.take() {
            match run.as_mut().poll(cx) {
                Poll::Ready(end) => self.end = Some(end),
                Poll::Pending => self.run = Some(run),
            }
        }
        match self.slot.take() {
            Some(next) => Poll::Ready(Some(event(next))),
            None if self.run.is_some() => Poll::Pending,
            None => Poll::Ready(self.end.take().and_then(end)),
        }
    }
}

impl<T> fmt::Debug for Events<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("ended", &self.run.is_none()).finish_non_exhaustive()
    }
}

/// The events of a [detached](crate::OwnedRun::detach) run. Dropping them does not stop the run.
#[derive(Debug)]
pub struct RunEvents(pub(super) DeltaSlot);

impl RunEvents {
    /// Waits for the next event. Returns `None` after the run has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    #[expect(clippy::should_implement_trait, reason = "it is a stream and no iterator")]
    pub fn next(&mut self) -> impl Future<Output = Option<StreamEvent>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for RunEvents {
    type Item = StreamEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.0.poll_take(cx)
    }
}

/// Closes the slot that passes events to the reader. Otherwise the run would wait for a reader that no longer exists.
impl Drop for RunEvents {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A run as a sequence of steps. [`Run::steps`](crate::Run::steps) creates it. Between two steps, the caller can read
/// the conversation, add messages, and replace the agent.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError, Step};
/// # async fn plan(agent: Agent) -> Result<(), LoopError> {
/// let mut chat = Conversation::new();
/// let mut steps = agent.run(&mut chat, "Plan a trip").steps();
/// while let Some(step) = steps.next().await {
///     match step? {
///         Step::Tools { calls, .. } => {
///             println!("ran {} tools", calls.len());
///             steps.inject("Focus on budget options.");
///         }
///         Step::Ended(result) => println!("{}", result.response),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the run goes on only while `next` is awaited"]
pub struct Steps<'a, O = (), C = &'a mut Conversation>(pub(super) Run<'a, O, C>);

impl<'a, O: 'a, C: DerefMut<Target = Conversation> + WasmCompatSend + 'a> Steps<'a, O, C> {
    /// Runs to the end of the next step. Returns `None` after the run has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the step. The next call continues the run.
    pub async fn next(&mut self) -> Option<Result<Step<O>, LoopError>> {
        self.0.drive(Reader::Step).await
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.0.conversation
    }

    /// Adds a message to the conversation before the next step.
    pub fn inject(&mut self, message: impl Into<Message>) {
        self.0.live.inject(message.into(), &mut self.0.conversation.ledger);
    }

    /// Returns the agent that runs the next step.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.0.agent
    }

    /// Replaces the agent from the next step on. [`Agent::to_builder`] creates a changed copy of an agent.
    pub fn set_agent(&mut self, agent: Agent) {
        self.0.agent = agent;
    }
}
