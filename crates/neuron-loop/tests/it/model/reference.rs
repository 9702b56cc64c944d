//! Computes the expected outcome of a run without an interruption. The rules come from the documentation, and are
//! independent of the source of the loop. They are applied one after another, without async code.
//!
//! Time is a number of milliseconds. It is needed only to compute which of several parallel tools ends first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use neuron_types::{
    ApprovalDecision, ApprovalDecisions, CompletionResponse, ContentBlock, ContentItem,
    EMPTY_ANSWER, LoopError, Message, PendingApproval, PendingCall, ProviderError, Role,
    StopReason, StreamEvent, TokenUsage, ToolCall, ToolError, ToolOutput, message_events,
    transcript,
};
use serde_json::Value;

use crate::model::case::*;
use crate::model::drive;
use crate::model::parts::{
    TOOLS, brief, context_line, deed, done, hides, kind, reason, reminders, reply, taken,
};
use crate::model::world::Counters;

/// Maximum number of times in a row that a response is continued after the provider paused it.
const MAX_PAUSES: usize = 16;

/// The state that the reference model of an agent keeps between two runs.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) history: Vec<Message>,
    /// Number of model calls of all runs that returned a response.
    pub(crate) turns: usize,
    pub(crate) counters: Counters,
    /// Number of messages, from the start of the history, that were sent to the model.
    pub(crate) passed: usize,
    pub(crate) budget: ContextBudget,
    /// Texts of the system messages that the loop added.
    pub(crate) said: BTreeSet<String>,
    /// Number of runs that have begun in this conversation.
    pub(crate) runs: usize,
    /// Number of times that the run asked for another response, because one was empty.
    pub(crate) asked_again: usize,
    /// State of the last run if it waits for an approval.
    pub(crate) waiting: Option<Waiting>,
}

/// The message after an empty answer.
const EMPTY: &str = "Your last answer was empty. Answer, or go on with the task.";

/// Returns `true` for the message after an empty answer.
pub(crate) fn is_complaint(message: &Message) -> bool {
    message.role == Role::User && message.text() == EMPTY
}

/// A run that waits for an approval.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// All calls of the last response of the waiting run.
    calls: Vec<ToolCall>,
    pub(crate) pending: Vec<PendingCall>,
    turn: usize,
    pub(crate) turns: usize,
    requests: usize,
    tool_calls: usize,
    usage: TokenUsage,
    tool_usage: TokenUsage,
    failing: Failing,
    hides_look: bool,
    stop_reason: StopReason,
}

/// Counts, for each tool, the turns in a row in which its calls failed. Unknown tools count under the empty name.
#[derive(Debug, Clone, Default)]
struct Failing {
    turns: BTreeMap<String, usize>,
    /// The tools with a failed call in the current turn. `succeeded` contains the tools with a successful call in this
    /// turn. Both sets are kept while the run pauses for an approval.
    failed: BTreeSet<String>,
    succeeded: BTreeSet<String>,
}

/// Counts the compactions that did not reach the strategy's token budget, and computes when the next compaction is
/// tried.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextBudget {
    /// Number of compactions in a row that changed nothing.
    futile: usize,
    /// Size in tokens up to which no compaction is tried. `None` if the next compaction is not delayed.
    compact_above: Option<usize>,
    /// Number of consecutive runs in which a compaction did not reach the token budget. `missed` is set if the current
    /// run is counted.
    missed_runs: usize,
    missed: bool,
}

impl ContextBudget {
    /// Records a compaction that did not reach the token budget. The conversation must grow by an eighth before the
    /// next compaction.
    fn miss(&mut self, tokens: usize) {
        self.compact_above = Some(tokens + tokens / 8);
        self.missed_runs += usize::from(!std::mem::replace(&mut self.missed, true));
    }
}

impl Memory {
    pub(crate) fn new(case: &Case) -> Self {
        let hooks = case.config.hooks.len();
        let counters = Counters { events: vec![Default::default(); hooks], ..Default::default() };
        let history = transcript::repair(case.config.history.clone());
        Self {
            history,
            turns: 0,
            counters,
            passed: 0,
            budget: ContextBudget::default(),
            said: BTreeSet::new(),
            runs: 0,
            asked_again: 0,
            waiting: None,
        }
    }

    /// Returns the messages after the last response that were not sent to the model yet. Ignores all messages of the
    /// history after the first `messages`.
    fn new_messages(&self, messages: usize) -> &[Message] {
        let history = &self.history[..messages];
        let is_answer = |message: &Message| message.role == Role::Assistant;
        let answers = history.iter().filter(|message| is_answer(message)).count();
        let until_last = history.split_inclusive(is_answer).take(answers).flatten().count();
        &history[until_last.max(self.passed).min(messages)..]
    }

    /// Sets the state to that of a new agent that continues the waiting run `state`.
    pub(crate) fn restore(&mut self, state: &PendingApproval) {
        self.turns = 0;
        self.passed = 0;
        self.budget = ContextBudget::default();
        self.said = BTreeSet::new();
        self.runs = state.run_number + 1;
        self.asked_again = 0;
        self.wait_for(state);
    }

    /// Records that a run waits for an approval. Only `state` is kept of the run, because a resumed run has no other
    /// data.
    pub(crate) fn wait_for(&mut self, state: &PendingApproval) {
        let calls = match &self.history[..] {
            [.., answer, _] => calls(answer),
            _ => Vec::new(),
        };
        self.waiting = Some(Waiting {
            calls,
            pending: state.calls.clone(),
            turn: state.turn,
            turns: state.turns,
            requests: state.requests,
            tool_calls: state.tool_calls,
            usage: state.usage.clone(),
            tool_usage: state.tool_usage.clone(),
            failing: Failing::default(),
            hides_look: false,
            stop_reason: StopReason::ToolUse,
        });
    }

    /// Returns the stored form of the waiting run, or `None` if no run waits.
    pub(crate) fn state(&self) -> Option<PendingApproval> {
        let waiting = self.waiting.as_ref()?;
        let mut state = PendingApproval::new("run", waiting.pending.clone());
        state.run_number = self.runs - 1;
        state.turn = waiting.turn;
        state.turns = waiting.turns;
        state.requests = waiting.requests;
        state.tool_calls = waiting.tool_calls;
        state.usage = waiting.usage.clone();
        state.tool_usage = waiting.tool_usage.clone();
        state.messages = self.history.clone();
        Some(state)
    }
}

/// The observations that a test expects from a run.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The outcome that the run reports to the durable engine. Empty without an engine.
    pub(crate) ends: Vec<String>,
    pub(crate) outcome: String,
    pub(crate) usage: TokenUsage,
    /// The part of `usage` that tools used.
    pub(crate) tool_usage: TokenUsage,
    pub(crate) turns: usize,
    pub(crate) events: Vec<String>,
    /// The texts that the guards check. A guard is a hook that may reject a text.
    pub(crate) guards: Vec<String>,
    /// A line for each ended scope that the hooks opened around an operation. The lines are sorted, because parallel
    /// tools may end in any order.
    pub(crate) scopes: Vec<String>,
    pub(crate) requests: Vec<Vec<Message>>,
    pub(crate) begun: Vec<u64>,
    pub(crate) contexts: Vec<String>,
    pub(crate) finished: Vec<u64>,
    pub(crate) lines: Vec<String>,
    /// The history before each compaction and at the end of the run. Between two of these states, messages are only
    /// added.
    pub(crate) histories: Vec<Vec<Message>>,
    /// The number of turns and the usage, recorded each time that one of them changes.
    pub(crate) counts: Vec<(usize, TokenUsage)>,
    /// The [`ContextBudget`] at the start of the run and after each finished compaction.
    pub(crate) budgets: Vec<ContextBudget>,
    /// The names of the situations that the case covered.
    pub(crate) seen: Vec<String>,
}

/// The error with which a run ends.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    kind: &'static str,
    detail: String,
    text: String,
}

impl Failure {
    fn of(error: LoopError) -> Self {
        let detail = match &error {
            LoopError::Provider(error) => error.kind().to_owned(),
            LoopError::Tool(error) => error.kind().to_owned(),
            LoopError::Durable(error) => error.kind().to_owned(),
            LoopError::Context(error) => {
                let text = error.to_string();
                text.split(':').next().unwrap_or_default().to_owned()
            }
            LoopError::UsageLimitExceeded(text) => {
                text.split(" exceeded").next().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        Self { kind: error.kind(), detail, text: error.to_string() }
    }

    /// Returns the reason that the results of calls that did not run give, if the run ends with this failure.
    fn reason(&self) -> String {
        match self.kind {
            "Tool" => "another tool call of the same answer failed".into(),
            _ => self.text.clone(),
        }
    }
}

impl From<LoopError> for Failure {
    fn from(error: LoopError) -> Self {
        Self::of(error)
    }
}

/// The expected outcome of a tool call.
#[derive(Debug, Clone)]
enum Fate {
    NotBegun,
    Begun,
    /// The call ran and has a result.
    Output(ToolOutput),
    /// The call has a result, but its tool did not run.
    Answered(ToolOutput),
    Failed(String),
    /// The call waits for an approval.
    Held(PendingCall),
    /// The call had a result before the run paused for an approval.
    Earlier(ToolOutput),
}

type Ran = Result<ToolOutput, Failure>;

/// The expected decision on whether a tool call runs.
enum Verdict {
    Run,
    Answer(ToolOutput),
    /// The tool rejects the call, or was not offered.
    Refuse,
    Wait(PendingCall),
}

/// Returns the expected observations of a run. `memory` is the state that the agent keeps between two runs. It is
/// changed as the agent must change its own state.
pub(crate) fn expect(case: &Case, way: Way, memory: &mut Memory, begin: Begin) -> Expected {
    let mut run = Run {
        config: &case.config,
        script: &case.script,
        way,
        memory,
        seen: Expected::default(),
        requests: 0,
        tool_calls: 0,
        turn: 0,
        pauses: 0,
        announced: false,
        failing: Failing::default(),
        limit: None,
        overflowed: false,
        is_turn_open: false,
        hides_look: false,
        sent: Vec::new(),
        decisions: None,
        answers: BTreeMap::new(),
        held: Vec::new(),
        paid: None,
        is_decided: false,
        answer: String::new(),
    };
    match begin {
        Begin::Message(message) => run.begin_run(message),
        Begin::Decisions(decisions) => run.begin_again(decisions),
        Begin::Start(_) => unreachable!("such runs are compared with others"),
    }
    run.seen.budgets.push(run.memory.budget.clone());
    run.count();
    run.whole();
    run.finish()
}

struct Run<'a> {
    config: &'a Config,
    script: &'a [Reply],
    way: Way,
    memory: &'a mut Memory,
    seen: Expected,
    requests: usize,
    tool_calls: usize,
    turn: usize,
    pauses: usize,
    announced: bool,
    failing: Failing,
    /// The limit that the run has reached, if the run makes one last model call because of it.
    limit: Option<Failure>,
    /// Set if the previous model call did not fit into the context window. If the next call does not fit either, the
    /// history is not compacted again.
    overflowed: bool,
    /// Set if the hooks were notified of a turn whose model call was not made yet.
    is_turn_open: bool,
    /// Set if the tool `look` is not offered in this turn.
    hides_look: bool,
    /// A person's decisions on the pending tool calls of the run.
    decisions: Option<ApprovalDecisions>,
    /// The results of calls that an approval decision keeps from running, by call id.
    answers: BTreeMap<String, ToolOutput>,
    /// Messages that were sent to the run and not added yet.
    sent: Vec<Message>,
    /// Events that the stream's reader has not received yet, because a guard must first check the response.
    held: Vec<StreamEvent>,
    /// The tokens of the last response.
    paid: Option<TokenUsage>,
    /// Set if the calls that run now were pending and have approval decisions.
    is_decided: bool,
    /// The text of the last response.
    answer: String,
}

impl Run<'_> {
    fn begin_run(&mut self, message: Message) {
        let memory = &mut *self.memory;
        memory.runs += 1;
        memory.asked_again = 0;
        memory.waiting = None;
        memory.history.push(message);
        if transcript::validate(&memory.history).is_err() {
            memory.history = transcript::repair(std::mem::take(&mut memory.history));
            memory.passed = 0;
        }
        // A new run has new messages, so it tries again. After two runs that missed the budget, the delay applies to
        // the next run too.
        memory.budget.missed = false;
        if memory.budget.missed_runs < 2 {
            memory.budget.compact_above = None;
        }
    }

    /// Resumes a run that waited for an approval. Its counters continue from their values at the pause.
    fn begin_again(&mut self, decisions: ApprovalDecisions) {
        let waiting = self.memory.waiting.as_ref().expect("a run waits");
        self.turn = waiting.turn;
        self.requests = waiting.requests;
        self.tool_calls = waiting.tool_calls;
        self.failing = waiting.failing.clone();
        self.hides_look = waiting.hides_look;
        self.seen.turns = waiting.turns;
        self.seen.usage = waiting.usage.clone();
        self.seen.tool_usage = waiting.tool_usage.clone();
        let results = self.memory.history.pop().expect("the results of the calls");
        self.answer = self.said_before().unwrap_or_default();
        self.memory.history.push(results);
        // The decisions are kept until the first of the calls begins.
        self.seen.histories.push(self.memory.history.clone());
        self.decisions = Some(decisions);
    }

    fn finish(mut self) -> Expected {
        self.seen.histories.push(self.memory.history.clone());
        self.seen.scopes.sort();
        self.seen.begun.sort_unstable();
        self.seen.contexts.sort_unstable();
        self.seen.finished.sort_unstable();
        self.seen
    }

    fn whole(&mut self) {
        let result = self.turns();
        if self.announced {
            let end = match &result {
                Ok((stop, _)) => format!("RunEnd {stop:?} {}", self.seen.turns),
                Err(failure) => format!("RunEnd {}", failure.text),
            };
            if self.config.engine.is_some() {
                self.seen.ends.push(end.clone());
            }
            self.tell(end);
        }
        self.tell("SessionEnd s".into());
        self.scope(
            "run s",
            match &result {
                Ok(_) => format!("answer {}", self.seen.turns),
                Err(failure) => format!("failed {}", failure.text),
            },
        );
        self.seen.outcome = match &result {
            Ok((stop, response)) => drive::answered(stop, self.seen.turns, response),
            Err(failure) => drive::failed(failure.kind, &failure.text),
        };
        self.note(match &result {
            Ok((stop, _)) => format!("answer: {stop:?}"),
            Err(failure) => format!("error: {} {}", failure.kind, failure.detail),
        });
        if self.way != Way::Run {
            let line = self.seen.outcome.clone();
            self.line(line);
        }
    }

    fn turns(&mut self) -> Result<(StopReason, String), Failure> {
        self.ask("SessionStart s".into())?;
        self.announced = true;
        self.ask("RunStart true".into())?;
        let mut decisions = self.decisions.take();
        loop {
            let turn = match decisions.take() {
                Some(decisions) => self.run_decided(&decisions),
                None => self.one_turn(),
            };
            let stop = match turn {
                Err(failure) if self.lands_on(&failure) => Some(self.last_call(failure)?),
                turn => turn?,
            };
            if let Some(stop) = stop {
                // A message that arrived after the last call makes the run continue, unless a limit ended it.
                if self.limit.is_some() || !self.steer("after the last call") {
                    return Ok((stop, self.answer.clone()));
                }
            }
        }
    }

    fn one_turn(&mut self) -> Result<Option<StopReason>, Failure> {
        if !std::mem::take(&mut self.is_turn_open) {
            // A turn that the provider paused continues first.
            if self.said_before().is_none() {
                self.steer("before a turn");
            }
            self.open_turn()?;
        }
        self.limits_before_call().inspect_err(|_| self.is_turn_open = true)?;
        self.remind();
        let answered = self.call_model(self.memory.history.len());
        let overflows = match &answered {
            Err(failure) => failure.detail == "ContextWindowExceeded",
            // The calls of the paused response run first.
            Ok(response) => {
                response.stop_reason == StopReason::ContextWindowExceeded
                    && response.message.tool_uses().next().is_none()
            }
        };
        if overflows && !std::mem::replace(&mut self.overflowed, true) {
            if let Some((old, new)) = self.make_room()? {
                // A response that was cut off is discarded but counts as a turn. A rejected call does not.
                self.is_turn_open = answered.is_err();
                let cut = "provider error: context window exceeded: the answer was cut off";
                let why = answered.map_or_else(|failure| failure.text, |_| cut.to_owned());
                let what = if self.is_turn_open { "a call" } else { "an answer" };
                self.note(format!("window exceeded: room made for {what}"));
                match self.way {
                    Way::Stream => self.line(drive::reset(2, &why)),
                    Way::Step => self.line(drive::compacted(old, new)),
                    Way::Run => {}
                }
                return Ok(None);
            }
            self.note("window exceeded: no room".into());
        }
        self.overflowed &= overflows;
        self.take(answered?)
    }

    /// Adds the messages that were sent to the run. Returns `true` if any were added.
    fn steer(&mut self, when: &str) -> bool {
        if self.sent.is_empty() {
            return false;
        }
        self.note(format!("steered: {when}"));
        for message in std::mem::take(&mut self.sent) {
            self.seen.histories.push(self.memory.history.clone());
            self.memory.history.push(message);
        }
        true
    }

    fn open_turn(&mut self) -> Result<(), Failure> {
        if self.memory.history.iter().all(|message| message.role == Role::System) {
            let text = "the conversation has only system messages: there is nothing to answer";
            return Err(LoopError::from(ProviderError::InvalidRequest(text.into())).into());
        }
        self.continue_as_new()?;
        self.limits_before_call()?;
        self.open();
        self.ask(format!("Turn {0} {0}", self.turn))?;
        self.compact_if_due()
    }

    /// Begins another turn of the run.
    fn open(&mut self) {
        self.turn = self.seen.turns;
        self.failing.failed.clear();
        self.failing.succeeded.clear();
    }

    /// Compacts the history because a model call did not fit into the context window. Compacts even if the strategy
    /// would not do so yet. An error of the strategy is ignored, so that the run ends with the outcome of the model
    /// call.
    fn make_room(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let old = Strategy::estimate(&self.memory.history);
        match self.compact(old) {
            Ok(Some(compacted)) => self.adopt(old, compacted).map(|new| Some((old, new))),
            Err(failure) if failure.kind != "Context" => Err(failure),
            _ => Ok(None),
        }
    }

    /// Returns `true` if one last model call follows the failure. The failure must be the first limit that the run
    /// reached, and the limits must allow a model call at all.
    fn lands_on(&self, failure: &Failure) -> bool {
        let requests = self.config.limits.as_ref().and_then(|limits| limits.request_limit);
        let allows_calls = self.config.max_turns != Some(0) && requests != Some(0);
        let is_limit = matches!(failure.kind, "MaxTurns" | "UsageLimitExceeded");
        self.config.finalizes && is_limit && allows_calls && self.limit.is_none()
    }

    /// Makes the last model call of a run that reached a limit. A notice, which is a system message, names the limit.
    /// No tool runs. If the model call fails, the notice is removed.
    fn last_call(&mut self, limit: Failure) -> Result<StopReason, Failure> {
        self.note(format!("last call: {}", limit.kind));
        let notice = format!(
            "This run has reached a limit ({}). Give your final answer now, from what is known so \
             far, and say what is left open. No tool can be called in this answer.",
            limit.text
        );
        self.limit = Some(limit);
        if !std::mem::take(&mut self.is_turn_open) {
            self.open();
            self.ask(format!("Turn {0} {0}", self.turn))?;
        }
        self.remind();
        // A turn that the provider paused continues without a notice.
        let is_told = self.said_before().is_none();
        let before = self.memory.history.len();
        if is_told {
            self.memory.history.push(Message::system(notice.clone()));
        }
        let response = self.call_model(before);
        if response.is_err() && is_told {
            // The notice is only in the request until the model answers.
            let notice = Message::system(notice.clone());
            let place = self.memory.history.iter().rposition(|message| *message == notice);
            place.filter(|place| *place >= before).map(|place| self.memory.history.remove(place));
        }
        let response = response?;
        if is_told {
            self.memory.passed = self.memory.history.len();
            self.memory.said.insert(notice);
        }
        let stop_reason = response.stop_reason.clone();
        Ok(self.take(response)?.unwrap_or(stop_reason))
    }

    fn continue_as_new(&mut self) -> Result<(), Failure> {
        let Some(engine) = &self.config.engine else { return Ok(()) };
        let nth = next(&mut self.memory.counters.engine_asked);
        match engine.continues {
            Some((at, is_error)) if at == nth => {
                self.note(format!("engine: continue as new {is_error}"));
                let text = "the journal is long".into();
                let error = neuron_types::DurableError::ContinueAsNew(text);
                if is_error { Err(LoopError::Durable(error).into()) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    // Limits. A limit of n allows exactly n.

    fn limits_before_call(&mut self) -> Result<(), Failure> {
        if let Some(max) = self.config.max_turns
            && self.seen.turns >= max
        {
            return Err(LoopError::MaxTurns(max).into());
        }
        let limit = self.config.limits.as_ref().and_then(|limits| limits.request_limit);
        limited("request", self.requests + 1, limit)?;
        self.limits_on_tokens()
    }

    fn limits_on_tokens(&self) -> Result<(), Failure> {
        let Some(limits) = &self.config.limits else { return Ok(()) };
        let usage = &self.seen.usage;
        let total = usage.input_tokens.saturating_add(usage.output_tokens);
        limited("input token", usage.input_tokens, limits.input_tokens_limit)?;
        limited("output token", usage.output_tokens, limits.output_tokens_limit)?;
        limited("total token", total, limits.total_tokens_limit)
    }

    fn limits_before_tools(&self, batch: usize) -> Result<(), Failure> {
        if let Some(limit) = &self.limit {
            return Err(limit.clone());
        }
        self.limits_on_tokens()?;
        let limit = self.config.limits.as_ref().and_then(|limits| limits.tool_calls_limit);
        limited("tool call", self.tool_calls + batch, limit)
    }

    // Compaction.

    fn compact_if_due(&mut self) -> Result<(), Failure> {
        let old = Strategy::estimate(&self.memory.history);
        let is_put_off = self.memory.budget.compact_above.is_some_and(|above| old <= above);
        if is_put_off || !self.is_due(&self.memory.history) {
            return Ok(());
        }
        let Some(compacted) = self.compact(old)? else {
            self.memory.budget.futile += 1;
            if self.memory.budget.futile >= 2 {
                self.memory.budget.miss(old);
            }
            self.note_budget();
            return Ok(());
        };
        let new = self.adopt(old, compacted)?;
        if self.way == Way::Step {
            self.line(drive::compacted(old, new));
        }
        Ok(())
    }

    fn is_due(&self, messages: &[Message]) -> bool {
        messages.len() > self.config.strategy.above
    }

    /// Records the [`ContextBudget`] after a finished compaction in the expected observations.
    fn note_budget(&mut self) {
        if let Some(last) = self.seen.budgets.last_mut() {
            *last = self.memory.budget.clone();
        }
    }

    /// Replaces the history by the compacted history. Returns the new size in tokens.
    fn adopt(&mut self, old: usize, compacted: Vec<Message>) -> Result<usize, Failure> {
        let new = Strategy::estimate(&compacted);
        self.note("compaction: shorter".into());
        if self.is_due(&compacted) {
            self.memory.budget.futile = 0;
            self.memory.budget.miss(new);
        } else {
            self.memory.budget = ContextBudget::default();
        }
        self.note_budget();
        // New messages stay new if the compaction kept them unchanged.
        let fresh = self.memory.new_messages(self.memory.history.len());
        self.memory.passed = match compacted.ends_with(fresh) {
            true => compacted.len() - fresh.len(),
            false => 0,
        };
        self.seen.histories.push(std::mem::replace(&mut self.memory.history, compacted));
        self.ask(format!("Compacted {old} {new}"))?;
        Ok(new)
    }

    /// Runs the context strategy on a copy of the history. `old` is the number of tokens of the history. Returns the
    /// new history if it is shorter.
    fn compact(&mut self, old: usize) -> Result<Option<Vec<Message>>, Failure> {
        let strategy = &self.config.strategy;
        let scope = format!("compaction {old}");
        let nth = next(&mut self.memory.counters.compactions);
        if let Some((at, fault)) = strategy.failure
            && at == nth
        {
            let failure = Failure::of(match fault {
                // The durable engine failed within the strategy's own model call.
                StrategyFault::Durable => {
                    LoopError::Durable(neuron_types::DurableError::SignalTimeout)
                }
                fault => LoopError::Context(fault.error()),
            });
            self.scope(&scope, format!("failed {}", failure.text));
            return Err(failure);
        }
        let compacted = strategy.compacted(self.memory.history.clone());
        self.memory.counters.compacted += 1;
        self.seen.budgets.push(self.memory.budget.clone());
        self.spend(&strategy.usage);
        let mut compacted = self.newest_reminders(compacted);
        if transcript::validate(&compacted).is_err() {
            self.note("compaction: repaired".into());
            compacted = transcript::repair(compacted);
        }
        if compacted.iter().all(|message| message.role == Role::System) {
            let text = "the context strategy left no message; the history is unchanged".into();
            let error = neuron_types::ContextError::CompactionFailed(text);
            let failure = Failure::of(LoopError::Context(error));
            self.scope(&scope, format!("failed {}", failure.text));
            return Err(failure);
        }
        let new = Strategy::estimate(&compacted);
        self.scope(&scope, format!("compacted {new}"));
        if new >= old {
            self.note("compaction: in vain".into());
            return Ok(None);
        }
        Ok(Some(compacted))
    }

    /// Removes all but the newest of equal reminders, which are system messages that the loop added.
    fn newest_reminders(&self, mut messages: Vec<Message>) -> Vec<Message> {
        let is_one = |message: &Message| {
            message.role == Role::System && self.memory.said.contains(&message.text())
        };
        let mut later: Vec<Message> = Vec::new();
        while let Some(message) = messages.pop() {
            if !is_one(&message) || !later.contains(&message) {
                later.push(message);
            }
        }
        later.reverse();
        later
    }

    fn remind(&mut self) {
        // A turn that the provider paused continues without reminders.
        if self.memory.history.last().is_some_and(|last| last.role == Role::Assistant) {
            return;
        }
        let turn = self.memory.turns;
        let texts = self.config.reminders.iter().flat_map(|every| reminders(*every, turn));
        for text in texts {
            let unanswered = self.memory.history.iter().rev();
            let mut unanswered = unanswered.take_while(|message| message.role != Role::Assistant);
            let message = Message::system(text.clone());
            if !unanswered.any(|other| *other == message) {
                self.memory.history.push(message);
                self.memory.said.insert(text);
                self.note("reminder".into());
            }
        }
    }

    // The model.

    /// Calls the model through the guards, which are hooks that can reject the input or the response. `messages` is the
    /// number of messages of the conversation. The notice about a limit does not count.
    fn call_model(&mut self, messages: usize) -> Result<CompletionResponse, Failure> {
        self.hides_look =
            self.config.hides_every.is_some_and(|every| hides(every, self.seen.turns));
        self.paid = None;
        self.held.clear();
        let tool_calls = self.tool_calls;
        let answered = self.guarded(messages, tool_calls);
        if let Ok(response) = &answered {
            // Only a response that all layers return is a turn.
            self.seen.turns += 1;
            self.memory.turns += 1;
            self.count();
            self.emit(StreamEvent::MessageComplete(response.message.clone()));
        }
        if let Some(usage) = self.paid.take() {
            self.emit(StreamEvent::Usage(usage));
        }
        let response = answered?;
        let kind = format!("{:?}", response.stop_reason);
        let calls = response.message.tool_uses().count().min(2);
        self.note(format!("answered: {kind} with {calls} calls"));
        Ok(response)
    }

    /// Calls the model through all guards, which are hooks that can reject texts. The first guard is the outermost, so
    /// it checks the input first and the response last.
    fn guarded(
        &mut self,
        messages: usize,
        tool_calls: usize,
    ) -> Result<CompletionResponse, Failure> {
        let guards = self.config.guards.clone();
        let new = self.memory.new_messages(messages).len();
        for (index, guard) in guards.iter().enumerate() {
            if let Some(reason) = self.judged(index, format!("GuardIn {new}")) {
                if guard.rejects_text {
                    self.reject_input(*guard, messages);
                }
                return Err(self.rejection("input", reason, *guard, tool_calls));
            }
        }
        let said_before = self.said_before().unwrap_or_default();
        let response = self.tried(messages)?;
        let outermost = guards.iter().position(|guard| guard.holds_back);
        for (index, guard) in guards.iter().enumerate().rev() {
            let line = format!("GuardOut {:?} after {said_before:?}", response.stop_reason);
            if let Some(reason) = self.judged(index, line) {
                if guard.rejects_text {
                    self.reject_paused_answer(messages);
                }
                return Err(self.rejection("output", reason, *guard, tool_calls));
            }
            if outermost == Some(index) {
                let held = std::mem::take(&mut self.held);
                held.into_iter().for_each(|event| self.emit(event));
            }
        }
        Ok(response)
    }

    /// Records that the guard with this index checks the text of `line`. Returns the reason if the guard rejects it.
    fn judged(&mut self, index: usize, line: String) -> Option<String> {
        let kind = kind(&line);
        self.seen.guards.push(format!("{index}: {line}"));
        let nth = next(self.memory.counters.events[index].entry(kind).or_default());
        let deed = deed(&self.config.hooks[index], kind, nth)?;
        (deed == Deed::Terminate).then(|| reason(index, kind, nth))
    }

    /// Calls the model, and repeats the call after transient errors.
    fn tried(&mut self, messages: usize) -> Result<CompletionResponse, Failure> {
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(messages) {
                Err(failure) if self.may_pass(&failure) => failure,
                answered => return answered,
            };
            if attempt > self.config.retries || self.limit.is_some() {
                return Err(failure);
            }
            attempt += 1;
            self.note(format!("{:?}: tried again", self.way).to_lowercase());
            if self.way == Way::Stream {
                self.line(drive::reset(attempt, &failure.text));
            }
            self.held.clear();
            self.limits_before_call().inspect_err(|_| self.is_turn_open = true)?;
        }
    }

    fn may_pass(&self, failure: &Failure) -> bool {
        let passes = ["Network", "RateLimit", "ModelLoading", "Timeout", "ServiceUnavailable"];
        let passes = passes.contains(&&*failure.detail)
            || (failure.detail == "StreamError" && self.way == Way::Stream);
        self.config.engine.is_none() && failure.kind == "Provider" && passes
    }

    fn attempt(&mut self, messages: usize) -> Result<CompletionResponse, Failure> {
        let asked = self.ask(format!("PreLlm {}", self.memory.history.len()));
        let answered = asked.and_then(|()| {
            self.memory.passed = messages;
            self.requests += 1;
            let scope = format!("model call {}", self.memory.history.len());
            let answered = self.ask_provider();
            self.scope(
                &scope,
                match &answered {
                    Ok(response) => format!("response {:?}", response.stop_reason),
                    Err(failure) => format!("failed {}", failure.text),
                },
            );
            answered
        });
        let checked = answered.and_then(|response| {
            self.paid = Some(response.usage.clone());
            self.spend(&self.taken(&response));
            check_answer(&response.message)?;
            Ok(response)
        });
        match checked {
            Ok(response) => {
                self.ask(format!("PostLlm {:?}", response.stop_reason))?;
                Ok(response)
            }
            Err(failure) => {
                let text = failure.text.clone();
                self.tell(format!("LlmError {text}"));
                Err(failure)
            }
        }
    }

    /// Removes new user messages that a guard rejected, and the reminders after these messages. If the guard rejects
    /// tool results, replaces them by a text. Otherwise keeps them.
    fn reject_input(&mut self, guard: Guard, messages: usize) {
        self.memory.history.truncate(messages);
        self.seen.histories.push(self.memory.history.clone());
        let new = self.memory.new_messages(messages).to_vec();
        let length = self.memory.history.len() - new.len();
        self.memory.history.truncate(length);
        let mut is_message_gone = false;
        for Message { role, mut content } in new {
            if role == Role::System {
                let message = Message { role, content };
                if !(is_message_gone && self.memory.said.contains(&message.text())) {
                    self.memory.history.push(message);
                }
                continue;
            }
            content.retain(|block| matches!(block, ContentBlock::ToolResult { .. }));
            for block in &mut content {
                if let ContentBlock::ToolResult { content, is_error, .. } = block
                    && guard.rejects_results
                {
                    self.seen.seen.push("rejected: results".into());
                    let notice = "[removed: a guardrail rejected the result]";
                    *content = vec![ContentItem::Text(notice.into())];
                    *is_error = true;
                }
            }
            if content.is_empty() {
                is_message_gone = true;
                self.seen.seen.push("rejected: message".into());
            } else {
                self.memory.history.push(Message { role, content });
            }
        }
    }

    /// Removes a rejected response as a whole, including its first part, after which the provider had paused.
    fn reject_paused_answer(&mut self, messages: usize) {
        if self.said_before().is_some() {
            self.note("rejected: a paused answer".into());
            self.memory.history.truncate(messages);
            self.seen.histories.push(self.memory.history.clone());
            while self.memory.history.last().is_some_and(|last| last.role == Role::Assistant) {
                self.memory.history.pop();
            }
            self.memory.passed = self.memory.passed.min(self.memory.history.len());
        }
    }

    /// Returns the error of a run that a guard ended. Its reason names the number of tool calls that ran before.
    fn rejection(
        &mut self,
        side: &str,
        mut reason: String,
        guard: Guard,
        tool_calls: usize,
    ) -> Failure {
        if guard.rejects_text {
            self.note(format!("rejected: {side}"));
            let results = match guard.rejects_results && side == "input" {
                true => "the latest results are removed from the conversation",
                false => "their results stay in the conversation",
            };
            reason += &match tool_calls {
                0 => String::new(),
                1 => format!(" (before that, 1 tool call ran; {results})"),
                count => format!(" (before that, {count} tool calls ran; {results})"),
            };
        }
        LoopError::HookTerminated(reason).into()
    }

    /// Returns the tokens of a response as reported, or an estimate if none are reported.
    fn taken(&self, response: &CompletionResponse) -> TokenUsage {
        let reported = &response.usage;
        if reported.input_tokens > 0 || reported.output_tokens > 0 {
            return reported.clone();
        }
        TokenUsage {
            input_tokens: Strategy::estimate(&self.memory.history),
            output_tokens: Strategy::estimate(std::slice::from_ref(&response.message)),
            ..TokenUsage::default()
        }
    }

    fn ask_provider(&mut self) -> Result<CompletionResponse, Failure> {
        if let Some(engine) = &self.config.engine {
            let nth = next(&mut self.memory.counters.engine_calls);
            if let Some((at, fault)) = engine.failing_call
                && at == nth
            {
                self.note(format!("engine: {fault:?}"));
                return Err(LoopError::from(fault.error()).into());
            }
        }
        self.seen.requests.push(self.memory.history.clone());
        let nth = next(&mut self.memory.counters.replies);
        let answer = match reply(self.script, nth) {
            Reply::Answers(answer) => answer,
            Reply::Fails { fault, .. } => {
                self.note(format!("provider: {fault:?}"));
                return Err(LoopError::Provider(fault.error()).into());
            }
        };
        let streams = self.way == Way::Stream && self.config.engine.is_none();
        if !streams {
            if let Some((_, how)) = answer.breaks {
                self.note(format!("broken: {how:?}"));
                return Err(LoopError::Provider(how.error()).into());
            }
            // The tokens of a response count even if a hook rejects it or panics. Its events are not shown.
            self.arrived(&answer.usage);
            self.ask("FirstChunk".into()).inspect_err(|_| self.spend(&answer.usage))?;
            if self.way == Way::Stream {
                message_events(&answer.message).for_each(|event| self.show(event));
            }
            return Ok(answer.response());
        }
        let pieces = answer.pieces();
        if !pieces.is_empty() {
            self.ask("FirstChunk".into())?;
        } else if answer.breaks.is_none() {
            self.arrived(&answer.usage);
            self.ask("FirstChunk".into()).inspect_err(|_| self.spend(&answer.usage))?;
        }
        let count = pieces.len();
        pieces.into_iter().for_each(|event| self.show(event));
        match answer.breaks {
            Some((_, how)) => {
                self.note(format!("broken: {how:?} in a stream after {}", count.min(2)));
                Err(LoopError::Provider(how.error()).into())
            }
            None => {
                self.arrived(&answer.usage);
                Ok(answer.response())
            }
        }
    }

    // The handling of a response.

    fn take(&mut self, response: CompletionResponse) -> Result<Option<StopReason>, Failure> {
        let CompletionResponse { mut message, stop_reason, .. } = response;
        message.role = Role::Assistant;
        self.answer = self.said_before().unwrap_or_default() + &message.text();
        let calls = calls(&message);
        let is_blank = message.content.iter().all(|block| match block.portable() {
            Some(ContentBlock::Text(text)) => text.trim().is_empty(),
            Some(block) => matches!(
                block,
                ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
            ),
            None => false,
        });
        if !message.content.is_empty() {
            self.memory.history.push(message);
        }
        if calls.is_empty() {
            let paused = matches!(stop_reason, StopReason::PauseTurn | StopReason::Compaction);
            if paused && self.pauses < MAX_PAUSES {
                self.pauses += 1;
                return Ok(None);
            }
            if paused {
                self.note("paused too often".into());
            } else {
                // A message that was sent to the run may make it continue.
                self.pauses = 0;
            }
            let is_blank = is_blank && self.answer.trim().is_empty();
            if stop_reason == StopReason::EndTurn && is_blank && self.limit.is_none() {
                if self.memory.asked_again < 2 && self.limits_before_call().is_ok() {
                    self.memory.asked_again += 1;
                    self.memory.history.push(Message::user(EMPTY));
                    self.note("asked again after an empty answer".into());
                    return Ok(None);
                }
                self.note("empty answer".into());
                return Ok(Some(StopReason::Other(EMPTY_ANSWER.into())));
            }
            return Ok(Some(stop_reason));
        }
        self.pauses = 0;
        let mut fates = vec![Fate::NotBegun; calls.len()];
        let invalid = calls.iter().position(|call| {
            // The loop marks invalid JSON with the argument `invalid_json`. The tool `raw` has an argument of this
            // name, so it is excluded.
            ToolCall::invalid_json(&call.input).is_some() && call.name != "raw"
        });
        let is_cut = matches!(
            stop_reason,
            StopReason::MaxTokens | StopReason::ContentFilter | StopReason::ContextWindowExceeded
        );
        let must_not = match &stop_reason {
            StopReason::Refusal => Some("the model refused to go on"),
            _ if is_cut && invalid.is_some() => {
                Some("the model's answer was cut off within the arguments of a tool call")
            }
            _ => None,
        };
        if let Some(why) = must_not {
            self.note("calls that must not run".into());
            self.add_results(&calls, fates, &BTreeMap::new(), why);
            return Ok(Some(stop_reason));
        }
        let ran = self.limits_before_tools(calls.len()).and_then(|()| match invalid {
            Some(index) if !self.config.returns_errors => {
                let failure = malformed_arguments(&calls[index]);
                fates[index] = Fate::Failed(failure_text(&failure));
                Err(failure)
            }
            _ => {
                self.is_decided = false;
                self.run_tools(&calls, &mut fates)
            }
        });
        self.close(calls.clone(), calls, fates, &BTreeMap::new(), ran, stop_reason)
    }

    /// Returns the verdict on a call without an approval decision. It depends on the offered tools, the policy and the
    /// arguments.
    fn decide(&mut self, call: &ToolCall) -> Verdict {
        let denied = |why: &str| ToolOutput::error(format!("permission denied: {why}"));
        if self.hides(call) {
            return Verdict::Refuse;
        }
        match self.judge(call) {
            Judgement::Deny => Verdict::Answer(denied("not this one")),
            Judgement::Panic => Verdict::Answer(denied("the permission policy failed")),
            Judgement::Ask if !self.config.pauses => Verdict::Answer(denied("really?")),
            // No approval is requested for arguments that the tool would reject.
            Judgement::Ask if !fits(&call.input) => {
                self.note("approval: not worth it".into());
                Verdict::Refuse
            }
            Judgement::Ask => Verdict::Wait(PendingCall::new(call.clone(), "really?")),
            Judgement::Allow => Verdict::Run,
        }
    }

    fn hides(&self, call: &ToolCall) -> bool {
        self.hides_look && call.name == "look"
    }

    fn judge(&self, call: &ToolCall) -> Judgement {
        let is_malformed = ToolCall::invalid_json(&call.input).is_some() && call.name != "raw";
        match self.config.has_policy && self.is_known(call) && !is_malformed {
            true => Judgement::of(&call.input, self.config.pauses),
            false => Judgement::Allow,
        }
    }

    fn deny(&mut self, call: &ToolCall, why: &str) {
        let denied = ToolOutput::error(format!("permission denied: {why}"));
        self.answers.insert(call.id.clone(), denied);
    }

    /// Resumes a waiting run. Runs or answers the pending calls according to the decisions.
    fn run_decided(
        &mut self,
        decisions: &ApprovalDecisions,
    ) -> Result<Option<StopReason>, Failure> {
        let waiting = self.memory.waiting.as_ref().expect("a run waits");
        let pending = &waiting.pending;
        let is_decided = pending.iter().any(|pending| decisions.of(pending).is_some());
        let batch = pending.len();
        // Calls that keep waiting need no room in the limits.
        let room = if is_decided { self.limits_before_tools(batch) } else { Ok(()) };
        if let Err(failure) = room {
            if self.lands_on(&failure) {
                self.give_up_waiting(&failure);
            }
            return Err(failure);
        }
        let waiting = self.memory.waiting.take().expect("a run waits");
        let results = self.memory.history.pop().expect("the results of the calls");
        let mut calls = waiting.calls.clone();
        let (mut fates, mut notes) = (Vec::new(), BTreeMap::new());
        for (index, (call, block)) in calls.iter_mut().zip(results.content).enumerate() {
            let pending = waiting.pending.iter().find(|pending| pending.call.id == call.id);
            let Some(pending) = pending else {
                let ContentBlock::ToolResult { content, is_error, .. } = block else {
                    unreachable!("they are results")
                };
                fates.push(Fate::Earlier(ToolOutput { content, is_error, ..Default::default() }));
                continue;
            };
            let mut fate = Fate::NotBegun;
            match decisions.of(pending) {
                None => {
                    self.note("approval: left".into());
                    fate = Fate::Held(pending.clone());
                }
                Some(ApprovalDecision::Approve) => self.approve(call, "approve"),
                Some(ApprovalDecision::ApproveEdited { input }) => {
                    call.input = input.clone();
                    notes.insert(index, format!("[approved with other arguments: {input}]"));
                    self.approve(call, "edit");
                }
                Some(ApprovalDecision::Deny { reason }) => {
                    self.note("approval: deny".into());
                    self.deny(call, reason);
                }
                Some(ApprovalDecision::Supply { output }) => {
                    self.note("approval: supply".into());
                    self.answers.insert(call.id.clone(), output.clone());
                }
                Some(other) => unreachable!("{other:?} is for nested runs"),
            }
            fates.push(fate);
        }
        self.is_decided = true;
        let ran = self.run_tools(&calls, &mut fates);
        self.close(waiting.calls, calls, fates, &notes, ran, waiting.stop_reason)
    }

    /// Ends the pending calls with a result that names the limit, because the run makes one last model call without
    /// them.
    fn give_up_waiting(&mut self, limit: &Failure) {
        self.note("last call: instead of calls that wait".into());
        let waiting = self.memory.waiting.take().expect("a run waits");
        let results = self.memory.history.last_mut().expect("the results of the calls");
        for block in &mut results.content {
            let ContentBlock::ToolResult { tool_use_id, content, .. } = block else {
                unreachable!("they are results")
            };
            if waiting.pending.iter().any(|pending| pending.call.id == *tool_use_id) {
                let text = format!("[not executed: {}]", limit.reason());
                *content = vec![ContentItem::Text(text)];
            }
        }
    }

    /// Applies the permission policy to a call that a person approved. The policy may still deny the call.
    fn approve(&mut self, call: &ToolCall, how: &str) {
        match self.judge(call) {
            Judgement::Deny => {
                self.note(format!("approval: {how}, but denied"));
                self.deny(call, "not this one");
            }
            Judgement::Panic => self.deny(call, "the permission policy failed"),
            Judgement::Allow | Judgement::Ask => self.note(format!("approval: {how}")),
        }
    }

    /// Ends a batch, which is the tool calls of one response. Adds the results to the history. The run then continues,
    /// ends, or waits for an approval.
    fn close(
        &mut self,
        made: Vec<ToolCall>,
        calls: Vec<ToolCall>,
        mut fates: Vec<Fate>,
        notes: &BTreeMap<usize, String>,
        ran: Result<(), Failure>,
        stop_reason: StopReason,
    ) -> Result<Option<StopReason>, Failure> {
        let is_held = |fate: &Fate| matches!(fate, Fate::Held(_));
        self.note_failing(&calls, &fates);
        let ran = match fates.iter().any(is_held) {
            false => ran.and_then(|()| self.count_failing()),
            true => ran,
        };
        if ran.is_err() && fates.iter().any(is_held) {
            self.note("approval: nobody is asked after a failure".into());
            fates.iter_mut().filter(|fate| is_held(fate)).for_each(|fate| *fate = Fate::NotBegun);
        }
        let (run_number, turn) = (self.memory.runs - 1, self.turn);
        let pending: Vec<PendingCall> = fates
            .iter()
            .enumerate()
            .filter_map(|(position, fate)| match fate {
                Fate::Held(pending) => Some(pending.clone().at("run", run_number, turn, position)),
                _ => None,
            })
            .collect();
        let why = ran.as_ref().err().map(Failure::reason).unwrap_or_default();
        let results = self.add_results(&calls, fates, notes, &why);
        ran?;
        if !pending.is_empty() {
            return Err(self.pause(made, pending, stop_reason));
        }
        if self.way == Way::Step {
            self.line(drive::executed(&calls, &results));
        }
        if self.config.stops_after.is_some_and(|most| self.tool_calls >= most) {
            self.note("stopped by a condition".into());
            return Ok(Some(stop_reason));
        }
        Ok(None)
    }

    /// Pauses the run until its calls are decided.
    fn pause(
        &mut self,
        calls: Vec<ToolCall>,
        pending: Vec<PendingCall>,
        stop_reason: StopReason,
    ) -> Failure {
        self.note(format!("paused in {:?}", self.way));
        self.memory.waiting = Some(Waiting {
            calls,
            pending,
            turn: self.turn,
            turns: self.seen.turns,
            requests: self.requests,
            tool_calls: self.tool_calls,
            usage: self.seen.usage.clone(),
            tool_usage: self.seen.tool_usage.clone(),
            failing: self.failing.clone(),
            hides_look: self.hides_look,
            stop_reason,
        });
        let state = self.memory.state().expect("it waits");
        LoopError::ApprovalRequired(Box::new(state)).into()
    }

    /// Records which tools failed and which succeeded in a group of calls. A turn has several such groups if it paused
    /// for an approval.
    fn note_failing(&mut self, calls: &[ToolCall], fates: &[Fate]) {
        for (call, fate) in calls.iter().zip(fates) {
            let name = if self.is_known(call) { call.name.clone() } else { String::new() };
            match fate {
                Fate::Output(output) if output.is_error => self.failing.failed.insert(name),
                Fate::Output(_) => self.failing.succeeded.insert(name),
                _ => false,
            };
        }
    }

    /// Counts the consecutive turns in which all calls of a tool failed. Returns a failure if the count of a tool
    /// exceeds the limit. A successful call resets the count of its tool. A turn without calls of unknown tools resets
    /// their count.
    fn count_failing(&mut self) -> Result<(), Failure> {
        let Failing { turns, failed, succeeded } = &mut self.failing;
        // Unknown tools share the counter without a name. It counts turns in a row.
        turns.retain(|name, _| {
            !succeeded.contains(name) && (!name.is_empty() || failed.contains(name))
        });
        for name in failed.difference(succeeded) {
            let turns = next(turns.entry(name.clone()).or_default()) + 1;
            if self.config.retry_limit.is_some_and(|limit| turns > limit) {
                self.seen.seen.push("no retry is left".into());
                let what = match &**name {
                    "" => "the model called tools that do not exist".to_owned(),
                    name => format!("the calls of `{name}` failed"),
                };
                let text = format!("{what} in {turns} turns in a row: no retry is left");
                return Err(LoopError::Tool(ToolError::InvalidInput(text)).into());
            }
        }
        Ok(())
    }

    /// Returns `true` if the tool exists and is offered in this turn.
    fn is_known(&self, call: &ToolCall) -> bool {
        TOOLS.contains(&&*call.name) && !self.hides(call)
    }

    /// Adds one message with a result for each call, in the order of the calls. `why` is the text in the results of
    /// calls that did not end.
    fn add_results(
        &mut self,
        calls: &[ToolCall],
        fates: Vec<Fate>,
        notes: &BTreeMap<usize, String>,
        why: &str,
    ) -> Vec<ToolOutput> {
        let ran: Vec<bool> = fates.iter().map(|fate| matches!(fate, Fate::Output(_))).collect();
        let outputs: Vec<ToolOutput> = fates
            .into_iter()
            .map(|fate| match fate {
                Fate::Output(output) | Fate::Answered(output) | Fate::Earlier(output) => output,
                Fate::Failed(text) => ToolOutput::error(text),
                Fate::Held(_) => {
                    ToolOutput::error("[not executed: the call awaits an approval]".to_owned())
                }
                Fate::NotBegun => ToolOutput::error(format!("[not executed: {why}]")),
                Fate::Begun => ToolOutput::error(format!(
                    "[interrupted: {why}; whether the call took effect is unknown]"
                )),
            })
            .collect();
        let result = |(index, (call, output)): (usize, (&ToolCall, &ToolOutput))| {
            // The result names the arguments that a person changed.
            let note = notes.get(&index).filter(|_| ran[index]);
            let note = note.map(|note| ContentItem::Text(note.clone()));
            ContentBlock::ToolResult {
                tool_use_id: call.id.clone(),
                content: note.into_iter().chain(output.content.clone()).collect(),
                is_error: output.is_error,
            }
        };
        let content = calls.iter().zip(&outputs).enumerate().map(result).collect();
        self.memory.history.push(Message { role: Role::User, content });
        outputs
    }

    /// Returns the text of the response that the provider paused, if the next model call continues it.
    fn said_before(&self) -> Option<String> {
        let history = self.memory.history.iter().rev();
        let parts = history.take_while(|message| message.role == Role::Assistant);
        let texts: Vec<String> = parts.map(Message::text).collect();
        (!texts.is_empty()).then(|| texts.into_iter().rev().collect())
    }

    // Tools.

    fn run_tools(&mut self, calls: &[ToolCall], fates: &mut [Fate]) -> Result<(), Failure> {
        for group in self.groups(calls, fates) {
            self.run_group(calls, group, fates)?;
        }
        Ok(())
    }

    /// Splits the calls into groups of calls that may run concurrently. With a durable engine, a group has at most the
    /// maximum number of concurrent calls.
    fn groups(&self, calls: &[ToolCall], fates: &[Fate]) -> Vec<Vec<usize>> {
        let is_alone =
            |call: &ToolCall| !self.config.parallel || (call.name == "solo" && self.is_known(call));
        let most = self.config.engine.as_ref().map_or(usize::MAX, |_| self.most_at_once());
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let open = (0..calls.len()).filter(|index| matches!(fates[*index], Fate::NotBegun));
        for index in open {
            let before = groups.last().and_then(|group| group.last());
            let joins = !is_alone(&calls[index]) && before.is_some_and(|at| !is_alone(&calls[*at]));
            match groups.last_mut() {
                Some(group) if joins && group.len() < most => group.push(index),
                _ => groups.push(vec![index]),
            }
        }
        groups
    }

    fn most_at_once(&self) -> usize {
        self.config.most_at_once.map_or(usize::MAX, |most| most.max(1))
    }

    /// Decides on all tool calls of a group, and then runs the allowed calls, concurrently or in the durable engine.
    fn run_group(
        &mut self,
        calls: &[ToolCall],
        group: Vec<usize>,
        fates: &mut [Fate],
    ) -> Result<(), Failure> {
        let mut asked = Vec::new();
        for (count, &index) in group.iter().enumerate() {
            match self.ask_before(&calls[index]) {
                Ok(verdict) => asked.push((index, verdict)),
                Err(failure) => {
                    for &index in &group[..=count] {
                        self.notify_failed(&calls[index], &failure);
                    }
                    return Err(failure);
                }
            }
        }
        let (mut run, mut first) = (Vec::new(), None);
        for (index, verdict) in asked {
            let call = &calls[index];
            match verdict {
                Verdict::Run => run.push(index),
                Verdict::Answer(output) => {
                    fates[index] = Fate::Answered(output);
                    let told = self.tell_after(call, &fates[index]);
                    first = first.or(told.err());
                }
                Verdict::Refuse => {
                    self.tool_calls += 1;
                    let ran = match self.hides(call) {
                        true => self.outcome(call),
                        false => self.settled(Err(ToolError::InvalidInput("too large".into()))),
                    };
                    let recorded = self.record(call, ran, &mut fates[index]);
                    first = first.or(recorded.err());
                }
                Verdict::Wait(pending) => {
                    let state = PendingApproval::new("run", vec![pending.clone()]);
                    let waits = LoopError::ApprovalRequired(Box::new(state)).into();
                    fates[index] = Fate::Held(pending);
                    self.notify_failed(call, &waits);
                }
            }
        }
        if first.is_none() && !run.is_empty() {
            first = match (&self.config.engine, &run[..]) {
                (Some(engine), _) => {
                    self.tool_calls += run.len();
                    self.run_durably(engine, calls, &run, fates)
                }
                (None, &[index]) => {
                    self.tool_calls += 1;
                    let ran = self.run_one(&calls[index]);
                    return self.record(&calls[index], ran, &mut fates[index]);
                }
                (None, _) => self.run_here(calls, &run, fates),
            };
        }
        let Some(failure) = first else { return Ok(()) };
        for index in run {
            if matches!(fates[index], Fate::NotBegun | Fate::Begun) {
                self.notify_failed(&calls[index], &failure);
            }
        }
        Err(failure)
    }

    /// Runs calls concurrently. After an error no further call begins. Calls with the action `patient`, which wait for
    /// their cancellation, then end at once. Other running calls have the grace period to end.
    fn run_here(
        &mut self,
        calls: &[ToolCall],
        run: &[usize],
        fates: &mut [Fate],
    ) -> Option<Failure> {
        let mut fresh: VecDeque<usize> = run.iter().copied().collect();
        let mut running: Vec<(u64, usize)> = Vec::new();
        let mut now = 0;
        let failure = loop {
            let is_free = running.len() < self.most_at_once();
            let index = match if is_free { fresh.pop_front() } else { None } {
                Some(index) => {
                    self.tool_calls += 1;
                    fates[index] = Fate::Begun;
                    let delay = self.begin(&calls[index]);
                    if delay > 0 {
                        running.push((now + delay, index));
                        continue;
                    }
                    index
                }
                None => {
                    let (then, index) = earliest(&mut running)?;
                    now = then;
                    index
                }
            };
            let ran = self.end(&calls[index]);
            if let Err(failure) = self.record(&calls[index], ran, &mut fates[index]) {
                break failure;
            }
        };
        if let Some(at) = running.iter().position(|(_, index)| is_patient(&calls[*index])) {
            let (_, index) = running.remove(at);
            let stopped = self.settled(Err(ToolError::Cancelled));
            self.scope_of_call(&calls[index], &stopped);
            self.record(&calls[index], stopped, &mut fates[index]).ok();
        }
        while let Some((then, index)) = earliest(&mut running) {
            if then < now + self.config.grace {
                let ran = self.end(&calls[index]);
                self.record(&calls[index], ran, &mut fates[index]).ok();
            } else {
                self.note("a call that outlived the grace period".into());
                self.scope(&format!("tool call {}", calls[index].id), "dropped".into());
            }
        }
        if !fresh.is_empty() {
            self.note("a call that never began".into());
        }
        Some(failure)
    }

    /// Passes all calls to the engine together. The results are reported in the order of the calls.
    fn run_durably(
        &mut self,
        engine: &Engine,
        calls: &[ToolCall],
        run: &[usize],
        fates: &mut [Fate],
    ) -> Option<Failure> {
        let nth = next(&mut self.memory.counters.engine_batches);
        let lost = run.last().filter(|_| engine.short_batch == Some(nth));
        let mut first = None;
        for &index in run {
            let call = &calls[index];
            fates[index] = Fate::Begun;
            self.begin(call);
            let mut ran = self.outcome(call);
            if lost == Some(&index) {
                self.note("engine: a result too few".into());
                let text = "the durable context returned fewer results than there were calls";
                let error = neuron_types::DurableError::ActivityFailed(text.into());
                ran = Err(Failure::of(LoopError::Durable(error)));
            }
            self.scope_of_call(call, &ran);
            let recorded = self.record(call, ran, &mut fates[index]);
            first = first.or(recorded.err());
        }
        first
    }

    fn run_one(&mut self, call: &ToolCall) -> Ran {
        self.begin(call);
        self.end(call)
    }

    /// Begins a call. Returns its duration in milliseconds, or 0 if its tool does not exist or was not offered.
    fn begin(&mut self, call: &ToolCall) -> u64 {
        if !self.is_known(call) {
            return 0;
        }
        let order = Order::read(&call.input);
        self.seen.begun.push(order.number);
        self.seen.contexts.push(context_line(order.number, &call.id, Some(self.turn)));
        self.seen.tool_usage += &taken();
        self.spend(&taken());
        order.delay
    }

    fn end(&mut self, call: &ToolCall) -> Ran {
        let ran = self.outcome(call);
        self.scope_of_call(call, &ran);
        ran
    }

    fn outcome(&mut self, call: &ToolCall) -> Ran {
        if !self.is_known(call) {
            self.note("tool: unknown".into());
            return self.settled(Err(ToolError::NotFound(call.name.clone())));
        }
        let order = Order::read(&call.input);
        self.note(format!("tool: {}", order.deed));
        if order.deed != "cancelled" {
            self.seen.finished.push(order.number);
        }
        if order.deed == "panic" {
            let name = &call.name;
            return Ok(ToolOutput::error(format!(
                "`{name}` failed unexpectedly; whether the call took effect is unknown"
            )));
        }
        self.settled(done(&order))
    }

    /// Handles the outcome of a tool. A hint to the model becomes a result. If `returns_errors` is set, any other error
    /// becomes a result too.
    fn settled(&mut self, ran: Result<ToolOutput, ToolError>) -> Ran {
        match ran {
            Err(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
            Err(error) if self.config.returns_errors => {
                self.note(format!("returned to the model: {}", error.kind()));
                let mut text = error.to_string();
                if let ToolError::NotFound(_) = &error {
                    let is_offered = |name: &&&str| !(self.hides_look && **name == "look");
                    let names: Vec<&str> = TOOLS.iter().filter(is_offered).copied().collect();
                    text = format!("{text}; the tools are: {}", names.join(", "));
                }
                Ok(ToolOutput::error(text))
            }
            ran => ran.map_err(|error| LoopError::Tool(error).into()),
        }
    }

    fn record(&mut self, call: &ToolCall, ran: Ran, fate: &mut Fate) -> Result<(), Failure> {
        match ran {
            Ok(output) => {
                *fate = Fate::Output(output);
                self.tell_after(call, fate)
            }
            Err(failure) => {
                *fate = Fate::Failed(failure_text(&failure));
                self.notify_failed(call, &failure);
                Err(failure)
            }
        }
    }

    /// Decides on a tool call, by the actions of the hooks and then by the permission policy.
    fn ask_before(&mut self, call: &ToolCall) -> Result<Verdict, Failure> {
        let skip = self.wishes(format!("PreTool {} {} {}", call.id, call.name, call.input))?;
        if let Some(reason) = skip {
            return Ok(Verdict::Answer(ToolOutput::text(reason)));
        }
        if ToolCall::invalid_json(&call.input).is_some() && call.name != "raw" {
            let text = failure_text(&malformed_arguments(call));
            return Ok(Verdict::Answer(ToolOutput::error(text)));
        }
        let verdict = match self.is_decided {
            true => self.answers.remove(&call.id).map_or(Verdict::Run, Verdict::Answer),
            false => self.decide(call),
        };
        if let Verdict::Answer(answer) = &verdict
            && answer.is_error
        {
            self.note(answer.content.first().map(ToString::to_string).unwrap_or_default());
        }
        Ok(verdict)
    }

    fn tell_after(&mut self, call: &ToolCall, fate: &Fate) -> Result<(), Failure> {
        let (Fate::Output(output) | Fate::Answered(output)) = fate else {
            unreachable!("it has one")
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        self.emit(StreamEvent::ToolResult { id, name, output: output.clone() });
        self.ask(format!("PostTool {} {} {}", call.id, call.name, brief(output)))
    }

    fn notify_failed(&mut self, call: &ToolCall, failure: &Failure) {
        self.tell(format!("ToolError {} {} {}", call.id, call.name, failure.text));
    }

    // Hooks, scopes and readers.

    /// Sends an event to all hooks. Returns the reason of the first hook that skips the tool call. Returns a failure if
    /// a hook ends the run.
    fn wishes(&mut self, line: String) -> Result<Option<String>, Failure> {
        let kind = kind(&line);
        self.seen.events.push(line);
        let (mut skip, mut terminate) = (None, None);
        for (index, rules) in self.config.hooks.iter().enumerate() {
            let nth = next(self.memory.counters.events[index].entry(kind).or_default());
            let Some(deed) = deed(rules, kind, nth) else { continue };
            self.seen.seen.push(format!("hook: {deed:?} at {kind}"));
            match deed {
                Deed::Skip => skip = skip.or(Some(reason(index, kind, nth))),
                Deed::Terminate => terminate = terminate.or(Some(reason(index, kind, nth))),
                Deed::Fail => {}
                Deed::Steer if self.config.engine.is_none() => {
                    self.sent.push(Message::user(reason(index, kind, nth)));
                }
                Deed::Steer => {}
            }
        }
        match terminate {
            Some(reason) => Err(LoopError::HookTerminated(reason).into()),
            None => Ok(skip),
        }
    }

    fn ask(&mut self, line: String) -> Result<(), Failure> {
        self.wishes(line).map(drop)
    }

    /// Sends an event to all hooks and ignores the actions that they return. Used for events about the end of an
    /// operation.
    fn tell(&mut self, line: String) {
        self.wishes(line).ok();
    }

    fn scope(&mut self, name: &str, how: String) {
        self.seen.scopes.push(format!("{name}: {how}"));
    }

    fn scope_of_call(&mut self, call: &ToolCall, ran: &Ran) {
        self.scope(
            &format!("tool call {}", call.id),
            match ran {
                Ok(output) => brief(output),
                Err(failure) => format!("failed {}", failure.text),
            },
        );
    }

    /// Sends a stream event of a response to the reader, or buffers it if a guard must check the response first.
    fn show(&mut self, event: StreamEvent) {
        if self.config.guards.iter().any(|guard| guard.holds_back) {
            self.seen.seen.push("held back".into());
            self.held.push(event);
        } else {
            self.emit(event);
        }
    }

    fn emit(&mut self, event: StreamEvent) {
        if self.way == Way::Stream {
            self.line(drive::line(&event));
        }
    }

    fn line(&mut self, line: String) {
        self.seen.lines.push(line);
    }

    fn note(&mut self, example: String) {
        self.seen.seen.push(example);
    }

    fn spend(&mut self, usage: &TokenUsage) {
        let sum = &mut self.seen.usage;
        let add = |a: Option<usize>, b: Option<usize>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        sum.input_tokens = sum.input_tokens.saturating_add(usage.input_tokens);
        sum.output_tokens = sum.output_tokens.saturating_add(usage.output_tokens);
        sum.cache_read_tokens = add(sum.cache_read_tokens, usage.cache_read_tokens);
        sum.cache_creation_tokens = add(sum.cache_creation_tokens, usage.cache_creation_tokens);
        sum.reasoning_tokens = add(sum.reasoning_tokens, usage.reasoning_tokens);
        self.count();
    }

    /// Notes the counters of a run that ends after a response has arrived, and before its call ends.
    fn arrived(&mut self, usage: &TokenUsage) {
        let mut sum = self.seen.usage.clone();
        sum += usage;
        self.seen.counts.push((self.seen.turns, sum));
    }

    fn count(&mut self) {
        self.seen.counts.push((self.seen.turns, self.seen.usage.clone()));
    }
}

/// Returns the calls of a response.
fn calls(answer: &Message) -> Vec<ToolCall> {
    let call = |call: neuron_types::ToolUseRef<'_>| ToolCall {
        id: call.id.into(),
        name: call.name.into(),
        input: call.input.clone(),
    };
    answer.tool_uses().map(call).collect()
}

/// Increments the counter. Returns its previous value.
fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

fn limited(what: &str, count: usize, limit: Option<usize>) -> Result<(), Failure> {
    match limit {
        Some(limit) if count > limit => {
            let text = format!("{what} limit exceeded: {count} > {limit}");
            Err(LoopError::UsageLimitExceeded(text).into())
        }
        _ => Ok(()),
    }
}

fn earliest(running: &mut Vec<(u64, usize)>) -> Option<(u64, usize)> {
    let at = (0..running.len()).min_by_key(|at| running[*at].0)?;
    Some(running.remove(at))
}

fn is_patient(call: &ToolCall) -> bool {
    call.name != "lost" && Order::read(&call.input).deed == "patient"
}

/// Returns the text of a tool's failure as the model receives it, without the prefix of `LoopError`.
fn failure_text(failure: &Failure) -> String {
    failure.text.strip_prefix("tool error: ").unwrap_or(&failure.text).to_owned()
}

fn malformed_arguments(call: &ToolCall) -> Failure {
    let raw = ToolCall::invalid_json(&call.input).unwrap_or_default();
    let error = serde_json::from_str::<Value>(raw).expect_err("it is malformed");
    let text = format!("the arguments of `{}` are not JSON ({error}): {raw}", call.name);
    LoopError::Tool(ToolError::InvalidInput(text)).into()
}

/// Returns a failure if the response is malformed, so that a history with it would always be invalid.
fn check_answer(message: &Message) -> Result<(), Failure> {
    let malformed = |fault: String| {
        let text = format!("the model's answer is malformed: {fault}; its tools do not run");
        Failure::of(LoopError::Provider(ProviderError::Other(text.into())))
    };
    if message.content.iter().any(|block| matches!(block, ContentBlock::ToolResult { .. })) {
        return Err(malformed("it holds a tool result".into()));
    }
    let calls: Vec<_> = message.tool_uses().collect();
    if let Some(call) = calls.iter().find(|call| call.id.is_empty()) {
        return Err(malformed(format!("a call of the tool `{}` has no id", call.name)));
    }
    let is_twice = |id: &str| calls.iter().filter(|call| call.id == id).count() > 1;
    let mut twice: Vec<&str> = calls.iter().map(|call| call.id).filter(|id| is_twice(id)).collect();
    twice.sort_unstable();
    match twice.first() {
        Some(id) => Err(malformed(format!("two tool calls have the id `{id}`"))),
        None => Ok(()),
    }
}

/// Returns the text of a tool result if the loop wrote it, because the call did not run or was interrupted. Returns
/// `None` for any other result.
pub(crate) fn written_by_loop(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::ToolResult { content, is_error: true, .. } => match &content[..] {
            [ContentItem::Text(text)]
                if text.starts_with("[not executed: ") || text.starts_with("[interrupted: ") =>
            {
                Some(text)
            }
            _ => None,
        },
        _ => None,
    }
}
