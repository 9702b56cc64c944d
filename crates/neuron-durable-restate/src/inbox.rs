//! The signals of a run. All of them are sent as values of a single Restate signal.
//!
//! A sender addresses a signal to the first invocation of the run. A run that continued as new has further invocations.
//! Each invocation forwards signals to the next invocation.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuron_types::DurableError;
use restate_sdk::context::{
    Context, ContextClient, ContextSignals, ContextTimers, DurableFuture, DurableFuturesUnordered,
};
use restate_sdk::errors::TerminalError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Journal, longest};
use crate::payload::Stored;

/// Name of the Restate signal that carries all signals of a run. Its value is a [`Signal`], which has the name of the
/// run's signal.
const CARRIER: &str = "neuron.signal";

/// A signal to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Signal {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) value: Value,
}

/// Sends a signal to an invocation.
pub(crate) fn send(ctx: &Context<'_>, invocation: &str, signal: Signal) {
    ctx.invocation_handle(invocation.to_owned()).signal(CARRIER).resolve(Stored(signal));
}

/// The signals that a run has not received yet, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<VecDeque<Signal>>);

impl Inbox {
    pub(crate) fn new(signals: Vec<Signal>) -> Self {
        Self(Mutex::new(signals.into()))
    }

    /// Waits for a signal with this name. Returns `None` if no such signal arrived before the timeout. Signals with
    /// other names are queued meanwhile.
    pub(crate) async fn receive(
        &self,
        journal: &Journal<'_, '_>,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<Value>, DurableError> {
        journal.check()?;
        if let Some(value) = self.take(name) {
            return Ok(Some(value));
        }
        let ctx = journal.context();
        journal.count(1);
        let mut waiting = DurableFuturesUnordered::new();
        waiting.push(timer(ctx, timeout));
        waiting.push(next(ctx));
        let received = loop {
            match ended(waiting.next().await).map_err(|error| journal.failed(&error))? {
                Some(signal) if signal.name == name => break Some(signal.value),
                Some(signal) => self.lock().push_back(signal),
                None => break None,
            }
            journal.count(1);
            waiting.push(next(ctx));
        };
        journal.stamp().await?;
        Ok(received)
    }

    /// Removes and returns all signals, for the invocation that continues the run.
    pub(crate) fn drain(&self) -> Vec<Signal> {
        self.lock().drain(..).collect()
    }

    /// Puts the signals that [`drain`](Self::drain) removed back into the queue. Called if no new invocation continues
    /// the run.
    pub(crate) fn put_back(&self, signals: Vec<Signal>) {
        *self.lock() = signals.into();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.lock().iter().any(|signal| signal.name == name)
    }

    /// Removes and returns the oldest signal with this name. Returns `None` if there is none.
    fn take(&self, name: &str) -> Option<Value> {
        let mut signals = self.lock();
        let index = signals.iter().position(|signal| signal.name == name)?;
        Some(signals.remove(index)?.value)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Signal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the result of `work`, and forwards signals to the invocation `invocation` meanwhile.
pub(crate) async fn forward_until<'ctx, T: Send + 'static>(
    ctx: &Context<'ctx>,
    work: impl DurableFuture<Output = Result<T, TerminalError>> + Send + 'ctx,
    invocation: &str,
) -> Result<T, TerminalError> {
    let mut waiting = DurableFuturesUnordered::new();
    let work: Waiting<'ctx, Event<T>> = Box::pin(work.map_ok(Event::Done));
    waiting.push(work);
    loop {
        let signal = ctx.signal::<Stored<Signal>>(CARRIER);
        waiting.push(Box::pin(signal.map_ok(|Stored(signal)| Event::Signal(signal))));
        match ended(waiting.next().await)? {
            Event::Done(value) => return Ok(value),
            Event::Signal(signal) => send(ctx, invocation, signal),
        }
    }
}

/// An event for which [`forward_until`] waits. It is the result of the parameter `work`, or a signal.
enum Event<T> {
    Done(T),
    Signal(Signal),
}

pub(crate) type Waiting<'ctx, T> =
    Pin<Box<dyn DurableFuture<Output = Result<T, TerminalError>> + Send + 'ctx>>;

/// Returns a future that ends with `None` after the timeout.
fn timer<'ctx>(ctx: &Context<'ctx>, timeout: Duration) -> Waiting<'ctx, Option<Signal>> {
    Box::pin(ctx.sleep(longest(timeout)).map_ok(|()| None))
}

/// Returns a future that ends with the next signal.
fn next<'ctx>(ctx: &Context<'ctx>) -> Waiting<'ctx, Option<Signal>> {
    Box::pin(ctx.signal::<Stored<Signal>>(CARRIER).map_ok(|Stored(signal)| Some(signal)))
}

/// The index and the result of the first future that ended, among several futures. `None` if there was no future.
type First<T> = Result<Option<(usize, Result<T, TerminalError>)>, TerminalError>;

/// Returns the result of the future that ended first. Returns an error if there was no future.
fn ended<T>(first: First<T>) -> Result<T, TerminalError> {
    match first? {
        Some((_, ended)) => ended,
        None => Err(TerminalError::new("nothing to wait for")),
    }
}
