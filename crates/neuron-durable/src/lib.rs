//! The parts that every engine for durable runs needs, and a durable context for one machine without an engine.
//!
//! Applications need [`DurableRuns`], [`DurableOptions`], [`RunOutcome`] and [`LocalDurableContext`]. Everything else is for authors of engines, such as
//! `neuron-durable-sqlite`. An engine depends on this crate and on `neuron-types`, and on no other engine.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a durable context for development on one machine, without an engine | [`LocalDurableContext`], [`LocalSignals`] |
//! | listing, inspecting, cancelling and signalling the runs of an engine | [`DurableRuns`] |
//! | the options that every engine has | [`DurableOptions`] |
//! | the outcome of a run | [`RunOutcome`], [`RunError`] |
//! | the result of a step in a journal | [`StepRecord`], [`ToolRequest`], [`EffectScope`], [`outcome_unknown`] |
//! | detecting a changed agent in a replay | [`RequestLog`], [`tool_digest`], [`check_tool_call`] |
//! | one effect for all calls with the same key | [`EffectKeys`], [`effect_of`] |
//! | a single tool call as a batch | [`execute_as_batch`] |
//! | work only while this process holds the run | `while_held`, `Moment` |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod asked;
mod batch_of_one;
mod digest;
mod effect_keys;
#[cfg(not(target_family = "wasm"))]
mod lease;
mod local_durable;
mod options;
mod outcome;
mod runs;
mod steps;

pub use asked::{Asked, ChangedAgent, RequestLog};
pub use batch_of_one::execute_as_batch;
#[doc(hidden)]
pub use digest::hexadecimal;
pub use digest::{check_tool_call, recorded_digest, tool_digest};
pub use effect_keys::{EffectKeys, effect_of};
#[cfg(not(target_family = "wasm"))]
pub use lease::{Moment, while_held};
pub use local_durable::{LocalDurableContext, LocalSignals};
pub use options::DurableOptions;
pub use outcome::{RunError, RunOutcome};
pub use runs::{DurableRuns, RunStatus, RunSummary, RunsError, WaitEvent, WaitsFor};
pub use steps::{
    DEFAULT_RECORD_LIMIT, EffectScope, StepRecord, ToolRequest, UnknownOutcome, outcome_unknown,
};
