//! State of a run that is not stored and that lives longer than one step.

use std::borrow::Cow;

use neuron_types::{Budget, LoopError, Message, Scopes, Start, ToolContext};
use serde_json::Value;

use super::{OutputType, RunResult};
use crate::ledger::Ledger;
use crate::parts::{RunScope, Steered};

/// State of a run that is not stored and that lives longer than one step.
#[derive(Default)]
pub(crate) struct Live<'a> {
    /// The start of the run. Taken when the run begins.
    pub(crate) start: Option<Start>,
    pub(crate) ctx: Cow<'a, ToolContext>,
    /// Messages that the caller added before the run began.
    pub(crate) injected: Vec<Message>,
    pub(crate) budget: Option<Budget>,
    pub(crate) handle: Option<Steered>,
    /// Set if the run waits for approval decisions that arrive through its `RunHandle`.
    pub(crate) waits: bool,
    /// The output type of a typed run.
    pub(crate) typed: Option<OutputType>,
    /// The id, the budget and other values of the run. `None` before the run begins.
    pub(crate) scope: Option<RunScope>,
    pub(crate) progress: Progress,
}

/// The progress of a run, as its hooks see it.
#[derive(Default)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum Progress {
    /// The run has not begun.
    #[default]
    New,
    /// The run has begun, and its outcome is not known.
    Open {
        /// Scopes that the hooks opened around the run, such as tracing spans.
        scopes: Scopes,
        /// Set if the hooks were notified of the start, and so must be notified of the end.
        is_announced: bool,
    },
    /// The outcome is known. The hooks are being notified.
    Ending {
        /// Scopes that the hooks opened around the run, such as tracing spans.
        scopes: Scopes,
        /// Set if the hooks were notified of the start.
        is_announced: bool,
        /// Set once the hooks are being notified of the end, so that they are not notified twice.
        is_told: bool,
        outcome: Result<RunResult<Option<Value>>, LoopError>,
    },
    /// The outcome was returned.
    Over,
}

impl Live<'_> {
    /// Adds a message to the conversation. Before the run has begun, the message is kept and later added after the
    /// message that starts the run.
    pub(crate) fn inject(&mut self, message: Message, ledger: &mut Ledger) {
        match self.start {
            // FAULT a message before the start stands before it: the arm -> `Some(_) => ledger.add_message(message),`
            //     (ends::message_behind_a_stored_answer_begins_another_run)
            Some(_) => self.injected.push(message),
            // The next run answers the message, also if the answer of this one was not stored.
            None if matches!(self.progress, Progress::Over) => ledger.push(message),
            None => ledger.add_message(message),
        }
    }
}
