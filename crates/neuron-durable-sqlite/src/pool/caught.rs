//! An agent whose panic becomes an error of its run, so the pool continues ([`Caught`]).

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use neuron_types::{AgentResult, Durability, DurableAgent, LoopError, Start, WasmBoxedFuture};

use crate::journal::other;

/// Wraps an agent and converts its panic to an error. The run is then listed as
/// [stalled](crate::RunStatus::Stalled).
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
            // The panic message may contain secrets, so it is not stored.
            ended.unwrap_or_else(|_| Err(LoopError::Durable(other("the agent panicked".into()))))
        })
    }
}
