//! The part of a run that is no data, and that outlives one step.

use std::borrow::Cow;

use neuron_types::{Budget, LoopError, Message, Scopes, Start, ToolContext};
use serde_json::Value;

use super::{OutputType, RunHandle, RunResult};
use crate::ledger::Ledger;
use crate::parts::RunScope;

/// The part of a run that is no data, and that outlives one step.
#[derive(Default)]
pub(crate) struct Live<'a> {
    /// Until the run has begun.
    pub(crate) start: Option<Start>,
    pub(crate) ctx: Cow<'a, ToolContext>,
    /// Messages that were injected before the run has begun.
    pub(crate) injected: Vec<Message>,
    pub(crate) budget: Option<Budget>,
    pub(crate) handle: Option<RunHandle>,
    /// True if the run waits for decisions of the handle.
    pub(crate) waits: bool,
    /// The output of a typed run.
    pub(crate) typed: Option<OutputType>,
    /// Once the run has begun.
    pub(crate) scope: Option<RunScope>,
    pub(crate) progress: Progress,
}

/// The progress of a run for hooks.
#[derive(Default)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum Progress {
    #[default]
    New,
    Open {
        /// The hooks' scopes around the run.
        scopes: Scopes,
        /// True if the hooks have been told of the start, so that they must be told of the end.
        is_announced: bool,
    },
    /// The outcome is there, and the hooks are told of it.
    Ending {
        scopes: Scopes,
        is_announced: bool,
        is_told: bool,
        outcome: Result<RunResult<Option<Value>>, LoopError>,
    },
    Over,
}

impl Live<'_> {
    /// Adds a message to the conversation, after the message that begins the run.
    pub(crate) fn inject(&mut self, message: Message, ledger: &mut Ledger) {
        match self.progress {
            Progress::New => self.injected.push(message),
            _ => ledger.add_message(message),
        }
    }
}
