//! What a tool sees of the run it is called in.

use std::fmt::Write;

use neuron_types::{Extensions, ToolCall, ToolContext, UsageMeter};
use tokio_util::sync::CancellationToken;

/// What the contexts of all calls of one answer are made from.
#[derive(Clone, Copy)]
pub(crate) struct CallContexts<'a> {
    /// The run's.
    pub(crate) outer: &'a ToolContext,
    /// What the tools find in their context.
    pub(crate) extensions: &'a Extensions,
    pub(crate) run_id: &'a str,
    /// Which of the agent's runs this is.
    pub(crate) run_number: usize,
    pub(crate) turn: usize,
    /// How often calls of this turn were started and given up with the answer that made them.
    pub(crate) attempt: usize,
}

impl CallContexts<'_> {
    /// The context of the call at a position of the answer.
    pub(crate) fn of(
        &self,
        index: usize,
        call: &ToolCall,
        cancellation: &CancellationToken,
    ) -> ToolContext {
        let Self { outer, extensions, run_id, run_number, turn, attempt } = *self;
        let mut idempotency_key = String::with_capacity(run_id.len() + call.id.len() + 24);
        // The position makes it unique in the agent's runs, the model's id between agents that were
        // given the same run id. Writing to a string cannot fail.
        write!(idempotency_key, "{run_id}/{run_number}/{turn}/{index}/{}", call.id).ok();
        if attempt > 0 {
            // A call of an answer that broke off may have had the same place and id.
            write!(idempotency_key, "/{attempt}").ok();
        }
        // Field by field: cloning the whole would clone what is replaced too.
        ToolContext {
            cwd: outer.cwd.clone(),
            session_id: outer.session_id.clone(),
            environment: outer.environment.clone(),
            cancellation_token: cancellation.child_token(),
            progress_reporter: outer.progress_reporter.clone(),
            call_id: call.id.clone(),
            run_id: run_id.to_owned(),
            idempotency_key,
            turn: Some(turn),
            usage: UsageMeter::default(),
            extensions: extensions.clone(),
        }
    }
}
