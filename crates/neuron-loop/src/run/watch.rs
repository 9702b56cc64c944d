//! Watching a run: as a stream of events, or step by step.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_types::{LoopError, Message, StreamEvent, WasmBoxedFuture, WasmCompatSend};

use super::start::Engine;
use super::{RunHandle, RunResult, Step, Way};
use crate::Agent;
use crate::conversation::Conversation;
use crate::parts::Slot;

/// An item of the stream of a run. The error of a run is the error of its stream.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<O = ()> {
    /// The run goes on.
    Event(StreamEvent),
    /// The run has ended. Nothing follows.
    Ended(RunResult<O>),
}

/// The end of a run that owns its conversation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished<O = ()> {
    /// The conversation.
    pub conversation: Conversation,
    /// The outcome of the run.
    pub result: Result<RunResult<O>, LoopError>,
}

type Outcome<O> = Result<RunResult<O>, LoopError>;

/// A run as a stream of events; made by [`Run::stream`](crate::Run::stream).
///
/// A slow reader slows the run, its tools included, and dropping the stream stops it. It ends with one
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
#[must_use = "the run goes on only while the stream is polled"]
pub struct RunStream<'a, O = ()> {
    /// `None` once the run has ended.
    run: Option<WasmBoxedFuture<'a, Outcome<O>>>,
    slot: Slot,
    end: Option<Outcome<O>>,
}

impl<'a, O> RunStream<'a, O> {
    pub(super) fn new(run: impl FnOnce(Slot) -> WasmBoxedFuture<'a, Outcome<O>>) -> Self {
        let slot = Slot::default();
        Self { run: Some(run(slot.clone())), slot, end: None }
    }
}

impl<O> RunStream<'_, O> {
    /// Waits for the next event. `None` after the end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    #[expect(clippy::should_implement_trait, reason = "it is a stream and no iterator")]
    pub fn next(&mut self) -> impl Future<Output = Option<Result<RunEvent<O>, LoopError>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

// The outcome is not pinned.
impl<O> Unpin for RunStream<'_, O> {}

impl<O> Stream for RunStream<'_, O> {
    type Item = Result<RunEvent<O>, LoopError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // Taken out while it runs: after a panic there is no run to poll again.
        if let Some(mut run) = this.run.take() {
            match run.as_mut().poll(cx) {
                Poll::Ready(end) => this.end = Some(end),
                Poll::Pending => this.run = Some(run),
            }
        }
        if let Some(event) = this.slot.take() {
            return Poll::Ready(Some(Ok(RunEvent::Event(event))));
        }
        match (this.end.take(), &this.run) {
            (Some(end), _) => Poll::Ready(Some(end.map(RunEvent::Ended))),
            (None, None) => Poll::Ready(None),
            (None, Some(_)) => Poll::Pending,
        }
    }
}

impl<O> fmt::Debug for RunStream<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("ended", &self.run.is_none()).finish_non_exhaustive()
    }
}

/// A [`RunStream`] of a run that owns its conversation.
#[must_use = "the run goes on only while the stream is polled"]
#[derive(Debug)]
pub struct OwnedStream<O = ()> {
    pub(super) stream: RunStream<'static, O>,
    pub(super) handle: RunHandle,
}

impl<O> OwnedStream<O> {
    /// Waits for the next event. `None` after the end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    #[expect(clippy::should_implement_trait, reason = "it is a stream and no iterator")]
    pub fn next(&mut self) -> impl Future<Output = Option<Result<RunEvent<O>, LoopError>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }

    /// Returns the conversation. Stops the run if it goes on.
    #[must_use]
    pub fn into_conversation(self) -> Conversation {
        drop(self.stream);
        self.handle.take_conversation().unwrap_or_default()
    }

    /// Returns the handle that controls the run.
    #[must_use]
    pub fn handle(&self) -> &RunHandle {
        &self.handle
    }
}

impl<O> Stream for OwnedStream<O> {
    type Item = Result<RunEvent<O>, LoopError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.stream).poll_next(cx)
    }
}

/// The events of a [detached](crate::OwnedRun::detach) run. The run goes on when they are dropped.
#[derive(Debug)]
pub struct RunEvents(pub(super) Slot);

impl RunEvents {
    /// Waits for the next event. `None` after the end.
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

impl Drop for RunEvents {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A run step by step; made by [`Run::steps`](crate::Run::steps). Between two steps the conversation can be read,
/// messages added and the agent changed.
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
#[must_use = "the run goes on only while `next` is awaited"]
pub struct Steps<'a, O = ()> {
    pub(super) engine: Engine<'a, O>,
    pub(super) conversation: &'a mut Conversation,
}

impl<O> Steps<'_, O> {
    /// Goes on to the end of the next step. `None` once the run has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the step. The next call goes on with the run.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is not an iterator but the asynchronous form of one"
    )]
    pub fn next(
        &mut self,
    ) -> impl Future<Output = Option<Result<Step<O>, LoopError>>> + WasmCompatSend {
        self.engine.drive(self.conversation, Way::Step)
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        self.conversation
    }

    /// Adds a message to the conversation before the next step.
    pub fn inject(&mut self, message: impl Into<Message>) {
        self.engine.run.inject(message.into(), &mut self.conversation.ledger);
    }

    /// Replaces the agent from the next step on; see [`Agent::to_builder`].
    pub fn set_agent(&mut self, agent: Agent) {
        self.engine.agent = agent;
    }

    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.engine.agent
    }
}

impl<O> fmt::Debug for Steps<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}
