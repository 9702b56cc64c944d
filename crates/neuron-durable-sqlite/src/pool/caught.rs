//! An agent whose panic is an error of its run, so that it does not end the pool.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use neuron_types::{AgentResult, Durability, DurableAgent, LoopError, Start, WasmBoxedFuture};

use crate::journal::other;

/// An agent that does not panic. A run whose agent panics stands still.
pub(super) struct Caught<'a, A>(pub(super) &'a A);

impl<A: DurableAgent> DurableAgent for Caught<'_, A> {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        let run = async { self.0.run(start, durability).await };
        Box::pin(async {
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            // The message of the panic may contain secrets.
            ended.unwrap_or_else(|_| Err(LoopError::Durable(other("the agent panicked".into()))))
        })
    }
}
