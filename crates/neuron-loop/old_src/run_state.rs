//! What one run has used so far, and where it stands.

use std::hash::{BuildHasher, Hasher, RandomState};

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecisions, DurableContext, Extensions, LoopError, ResumedApproval, StopReason,
    TokenUsage, ToolContext, UsageMeter,
};

use crate::Budget;
use crate::budget::Reservation;
use crate::compaction::KnownSize;
use crate::early_tools::EarlyTools;
use crate::enclosing_run::Within;
use crate::failing_turns::FailingTurns;
use crate::finalize::Limit;
use crate::output::Output;

/// What one run has used so far, and where it stands. Fresh for every run; readable after it.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    pub(crate) id: String,
    /// Which of the agent's runs this is, from zero.
    pub(crate) number: usize,
    /// The current turn, from zero.
    pub(crate) turn: usize,
    /// The calls of the model that were answered.
    pub(crate) turns: usize,
    /// The calls of the model that were made.
    pub(crate) requests: usize,
    /// The tool calls that were started.
    pub(crate) tool_calls: usize,
    pub(crate) usage: TokenUsage,
    /// The part of it that the tools took.
    pub(crate) tool_usage: TokenUsage,
    /// What the tools took and is not in it yet.
    pub(crate) tool_meter: UsageMeter,
    /// The meter of the context, on which all of it is counted too.
    pub(crate) meter: UsageMeter,
    /// How often in a row the calls of a tool failed.
    pub(crate) failing: FailingTurns,
    /// What was decided on the calls that wait, until they run.
    pub(crate) decisions: Option<ApprovalDecisions>,
    /// What it shares with other runs.
    pub(crate) budget: Option<Budget>,
    /// The call of another agent inside which it is.
    pub(crate) within: Option<Within>,
    /// What its tools find in their context.
    pub(crate) extensions: Extensions,
    /// In which turn calls were last given up that had been started early, and how often.
    pub(crate) given_up: (usize, usize),
    /// The calls of the last answer that were started before it was whole.
    pub(crate) early: EarlyTools,
    /// The tools that the model was offered for its last answer, if these were not all.
    pub(crate) offered: Option<ToolRegistry>,
    /// Why the model stopped, and what it said, when a stop condition ends the run with its last
    /// answer.
    pub(crate) stopped: Option<(StopReason, String)>,
    /// The part of the usage that the provider did not report.
    pub(crate) estimated_usage: TokenUsage,
    /// Whether it was noted in the log that usage is estimated.
    pub(crate) told_of_estimates: bool,
    /// The limit that the run has reached, once one last call is made for it.
    pub(crate) limit: Option<Limit>,
    /// What a typed run wants.
    pub(crate) output: Option<Output>,
    /// How often in a row the provider paused and was asked to go on.
    pub(crate) pauses: usize,
    /// Whether the conversation ends with a turn that the provider paused.
    pub(crate) is_paused: bool,
    /// Whether the run was announced to the hooks, so that its end must be.
    pub(crate) announced: bool,
    /// Whether the current turn has been opened and only the model's call is left: so after a
    /// compaction that was reported in between.
    pub(crate) turn_open: bool,
    /// Whether the last call did not fit into the context window, and room was made for it.
    pub(crate) overflowed: bool,
    /// The size of the conversation as an earlier execution of the run knew it, until the request is
    /// whole again.
    pub(crate) size_before: Option<KnownSize>,
    /// How many answers of a typed run an earlier execution of it took for its output.
    pub(crate) output_attempts: usize,
}

impl RunState {
    pub(crate) fn new(
        number: usize,
        ctx: &ToolContext,
        durability: Option<&impl DurableContext>,
        own_budget: Option<&Budget>,
    ) -> Self {
        let mut run = Self { id: run_id(ctx, durability), number, ..Self::default() };
        run.take_from(ctx, own_budget);
        run
    }

    /// Reserves tool calls of the budget, if there is one.
    pub(crate) fn reserve_tool_calls(
        &self,
        calls: usize,
    ) -> Result<Option<Reservation>, LoopError> {
        let budget = self.budget.as_ref();
        budget.map(|budget| budget.reserve_tool_calls(calls)).transpose()
    }

    /// Counts calls as started that were started early and given up.
    pub(crate) fn count_given_up(&mut self, early: &EarlyTools) {
        let count = early.count_given_up();
        self.tool_calls = self.tool_calls.saturating_add(count);
        if count > 0 {
            self.given_up = (self.turn, self.attempt().saturating_add(1));
        }
    }

    /// How often calls of this turn were started early and given up: what runs now is not what ran
    /// then.
    pub(crate) fn attempt(&self) -> usize {
        match self.given_up {
            (turn, attempts) if turn == self.turn => attempts,
            _ => 0,
        }
    }

    /// Takes from the context what the run shares with others, and what its tools are to find.
    pub(crate) fn take_from(&mut self, ctx: &ToolContext, own_budget: Option<&Budget>) {
        let mut extensions = ctx.extensions.clone();
        // It is for the agent that finds it, and not for those within its calls.
        extensions.remove::<ResumedApproval>();
        let found = ctx.extensions.get::<Budget>();
        let budget = match (own_budget, found) {
            (Some(own), Some(found)) => Some(own.together_with(found)),
            (own, found) => own.or(found).cloned(),
        };
        if let (Some(_), Some(budget)) = (own_budget, &budget) {
            extensions.insert(budget.clone());
        }
        (self.budget, self.extensions) = (budget, extensions);
        self.meter = ctx.usage.clone();
    }
}

/// The engine's id if there is one; within a tool call, that call's key, so that a nested run is
/// told from the one around it; else the caller's, or a new one.
fn run_id(ctx: &ToolContext, durability: Option<&impl DurableContext>) -> String {
    if let Some(id) = durability.and_then(DurableContext::run_id) {
        return id.to_owned();
    }
    if !ctx.idempotency_key.is_empty() {
        return ctx.idempotency_key.clone();
    }
    if !ctx.run_id.is_empty() {
        return ctx.run_id.clone();
    }
    // The hasher's keys are random for every `RandomState`.
    format!("run-{:016x}", RandomState::new().build_hasher().finish())
}
