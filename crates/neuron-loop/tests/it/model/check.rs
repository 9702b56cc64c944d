//! Checks one test case. The check has three stages:
//!
//! - The agent runs awaited, streamed and stepped. Each run is compared with the reference model, which computes the
//!   expected outcome.
//! - A run is interrupted, and invariants are checked.
//! - The interrupted agent continues, and is compared with the reference model again.

use std::collections::BTreeSet;
use std::fmt::Debug;

use neuron_loop::Conversation;
use neuron_types::{
    ApprovalDecisions, ApprovalError, ContentBlock, Message, PendingApproval, PendingCall, Role,
    TokenUsage, ToolContext, transcript,
};

use crate::model::case::*;
use crate::model::drive::{self, Ended, Stop};
use crate::model::executions;
use crate::model::generator;
use crate::model::pairs;
use crate::model::parts::{self, Agent};
use crate::model::reference::{self, Expected, Memory, is_complaint, written_by_loop};
use crate::model::shared_budget;
use crate::model::world::{Journal, Plan, World};

pub(crate) type Checked<T = ()> = Result<T, String>;

/// Checks the case that this seed generates. Returns the situations that the case covered, or the first fault.
pub(crate) async fn case(seed: u64) -> Checked<BTreeSet<String>> {
    let case = generator::case(seed);
    let mut seen = BTreeSet::new();
    if transcript::validate(&case.config.history).is_err() {
        seen.insert("history: repaired at first".to_owned());
    }
    for way in WAYS {
        let parts = left_alone(&case, way, &mut seen).await?;
        if way == case.interruption.way {
            interrupted(&case, &parts, &mut seen).await?;
        }
    }
    if let Some(pure) = &case.early {
        early(&case, pure, &mut seen)
            .await
            .map_err(|fault| format!("with early tools: {fault}"))?;
    }
    if let Some(shared) = &case.shared {
        let checked = shared_budget::check(&case, shared, &mut seen).await;
        checked.map_err(|fault| format!("with a budget: {fault}"))?;
    }
    executions::check(&case, &mut seen)
        .await
        .map_err(|fault| format!("in several executions: {fault}"))?;
    pairs::check(seed, &mut seen).await.map_err(|fault| format!("with pairs: {fault}"))?;
    Ok(seen)
}

/// Checks runs in which calls of the tools `pure` start while the response is still streaming. In a run without errors,
/// limits and hook actions, only the order of the events may differ from the expected run. In every run, no call may
/// run twice.
async fn early(case: &Case, pure: &[&'static str], seen: &mut BTreeSet<String>) -> Checked {
    let mut memory = Memory::new(case);
    let begin = || Begin::Message(case.messages[0].clone());
    let expected = reference::expect(case, Way::Stream, &mut memory, begin());
    let mut stop = Stop::Never;
    for is_interrupted in [false, true] {
        let world = World::new(case.config.hooks.len());
        let mut agent = parts::agent_with(case, pure, &world);
        let ctx = context();
        world.begin(ctx.cancellation_token.clone(), None);
        let run = drive::run(case, Way::Stream, &mut agent, begin(), &ctx, &world, stop);
        let (ended, waited) = run.await;
        let first = world.note(std::mem::take);
        no_faults(&first)?;
        no_scope_is_open(&first)?;
        check_history(agent.messages())?;
        same_list::<_, &str>("the tools that run on", &first.running, &[])?;
        // Each call that began used one token, whatever its outcome.
        let taken = agent.tool_usage().input_tokens;
        same("what tools took", &taken, &first.begun.len())?;
        let has_begun = !first.early.is_empty();
        match &ended {
            Ended::With(_) => {
                for events in &first.events {
                    check_pairs(events)?;
                }
            }
            ended => drop(seen.insert(format!("early tools: {ended:?} {has_begun}"))),
        }
        if is_interrupted {
            if first.when_cancelled.is_some() {
                seen.insert(format!("early tools: Cancelled {has_begun}"));
            }
        } else if is_calm(&expected) {
            seen.insert(format!("early tools: {has_begun}"));
            as_without(&first, &expected)?;
            same("the outcome", &ended, &Ended::With(expected.outcome.clone()))?;
            same_list("the history", agent.messages(), &memory.history)?;
            same("the usage", agent.usage(), &expected.usage)?;
            early_calls_are_first(case, &first)?;
        } else {
            seen.insert(format!("early tools, and trouble: {has_begun}"));
        }
        stop = match case.interruption.how {
            How::Cancel | How::CancelWithin => Stop::Cancel(some_wait(case, &waited)),
            _ => Stop::Drop(some_wait(case, &waited)),
        };
        // Calls that ran do not run again.
        let ctx = context();
        world.begin(ctx.cancellation_token.clone(), None);
        let next = Begin::Message(case.messages[1].clone());
        drive::run(case, Way::Stream, &mut agent, next, &ctx, &world, Stop::Never).await;
        let second = world.note(std::mem::take);
        no_faults(&second)?;
        check_history(agent.messages())?;
        let begun = first.begun.iter().chain(&second.begun);
        only_once("a call", begun.filter(|call| **call != u64::MAX))?;
        only_once("an idempotency key", first.keys.iter().chain(&second.keys))?;
    }
    Ok(())
}

/// Returns `true` if the expected run ends with a response or waits for an approval, and has no failure, limit or hook
/// action before.
fn is_calm(expected: &Expected) -> bool {
    let troubles = ["hook: ", "broken: ", "provider: ", "calls that must not run", "last call: "];
    let is_trouble = |seen: &String| troubles.iter().any(|trouble| seen.starts_with(trouble));
    let ends = ["answer ", "error ApprovalRequired"];
    ends.iter().any(|end| expected.outcome.starts_with(end))
        && !expected.seen.iter().any(is_trouble)
}

/// Checks a run in which tool calls started while the response was streaming. Its observations must equal the expected
/// ones, except for the order of the hooks' events.
fn as_without(journal: &Journal, expected: &Expected) -> Checked {
    for events in &journal.events {
        same_list("the events, sorted", &sorted(events), &sorted(&expected.events))?;
    }
    same_list("the lines", &journal.lines, &expected.lines)?;
    same_list("the requests", &journal.requests, &expected.requests)?;
    same_list("the calls that began", &sorted(&journal.begun), &expected.begun)?;
    same_list("the contexts of calls", &sorted(&journal.contexts), &expected.contexts)?;
    same_list("the calls that ended", &sorted(&journal.finished), &expected.finished)?;
    same_list("the scopes", &sorted(&journal.scopes), &expected.scopes)
}

/// Checks the order of the calls in each response. A call that started while the response was streaming must not follow
/// a call that started after the response was complete.
fn early_calls_are_first(case: &Case, journal: &Journal) -> Checked {
    for reply in &case.script {
        let Reply::Answers(answer) = reply else { continue };
        let calls = answer.message.tool_uses().map(|call| Order::read(call.input).number);
        let mut late = None;
        for call in calls {
            match (journal.early.contains(&call), late) {
                (true, Some(late)) => return Err(format!("call {call} overtakes call {late}")),
                (true, None) => {}
                // A skipped or denied call does not have to wait.
                (false, _) if journal.begun.contains(&call) => late = Some(call),
                (false, _) => {}
            }
        }
    }
    Ok(())
}

/// Runs both runs of the case without an interruption. Pauses for approvals split a run into parts. For each part of
/// the first run, returns the places at which it waited, and its journal.
async fn left_alone(
    case: &Case,
    way: Way,
    seen: &mut BTreeSet<String>,
) -> Checked<Vec<(Vec<Place>, Journal)>> {
    let mut session = Session::new(case, way, seen);
    let mut first = Vec::new();
    for (index, message) in case.messages.iter().enumerate() {
        if index > 0 {
            session.transfer()?;
        }
        let parts = session.whole_run(Begin::Message(message.clone())).await;
        let parts = parts.map_err(|fault| format!("{way:?}, run {index}: {fault}"))?;
        if index == 0 {
            first = parts;
        }
    }
    if let Some(total) = &session.total {
        same("the usage of all runs", session.agent.total_usage(), total)?;
    }
    Ok(first)
}

/// An agent, and the state of the reference model with which its runs are compared.
struct Session<'a> {
    case: &'a Case,
    way: Way,
    world: World,
    agent: Agent,
    memory: Memory,
    /// Numbers of the calls that began. `finished` contains the numbers of the calls that ended. `keys` contains the
    /// idempotency keys of the calls that began.
    begun: Vec<u64>,
    finished: Vec<u64>,
    keys: Vec<String>,
    /// Number of pauses for an approval so far.
    asked: usize,
    /// The numbers of the calls that the last decisions were on, and these decisions.
    decided: (BTreeSet<u64>, ApprovalDecisions),
    /// Set after the future of a step was dropped. The reference model then knows the state of the run only as it was
    /// stored during a wait for approval. A new agent is restored from the stored state before the run continues.
    is_unsure: bool,
    /// Tokens of all runs of the conversation. `None` for a restored agent, because its earlier tokens are unknown.
    total: Option<TokenUsage>,
    seen: &'a mut BTreeSet<String>,
}

impl<'a> Session<'a> {
    fn new(case: &'a Case, way: Way, seen: &'a mut BTreeSet<String>) -> Self {
        let world = World::new(case.config.hooks.len());
        let (agent, memory) = (parts::agent(case, &world), Memory::new(case));
        Self {
            case,
            way,
            world,
            agent,
            memory,
            begun: Vec::new(),
            finished: Vec::new(),
            keys: Vec::new(),
            asked: 0,
            decided: Default::default(),
            is_unsure: false,
            total: Some(TokenUsage::default()),
            seen,
        }
    }

    /// Drives a run from `begin` to its end, through all pauses for approvals. Returns, for each part between two
    /// pauses, the places at which it waited and its journal.
    async fn whole_run(&mut self, begin: Begin) -> Checked<Vec<(Vec<Place>, Journal)>> {
        let mut parts = Vec::new();
        let mut next = Some(begin);
        while let Some(begin) = next {
            let part = self.exact(begin).await?;
            // A run without room for its calls waits again after each approval, so the number of decisions is limited.
            let is_asking = part.1.pending.is_some();
            parts.push(part);
            let goes_on = is_asking || self.asked < self.case.answers.len();
            next = if goes_on { self.decided().await? } else { None };
        }
        if let Some(total) = &mut self.total {
            *total += self.agent.usage();
        }
        if self.case.config.pauses && self.memory.waiting.is_none() {
            let error = "error Approval: approval: the agent waits for no approval";
            self.refused(ApprovalDecisions::new(), error).await?;
        }
        Ok(parts)
    }

    /// Passes the conversation to the second run in the way that the case selects, for example through a session.
    /// Checks that no data is lost.
    fn transfer(&mut self) -> Checked {
        self.seen.insert(format!("reuse: {:?}", self.case.reuse));
        let text = |error: serde_json::Error| error.to_string();
        let chat = &mut self.agent.conversation;
        match self.case.reuse {
            Reuse::Kept => {}
            Reuse::Stored => {
                let stored = serde_json::to_string(chat).map_err(text)?;
                let read: Conversation = serde_json::from_str(&stored).map_err(text)?;
                same("the stored conversation", &read, chat)?;
                *chat = read;
            }
            Reuse::Session => {
                let mut session = neuron_types::Session::new("s", ".".into());
                chat.write_session(&mut session).map_err(|error| error.to_string())?;
                let stored = serde_json::to_string(&session).map_err(text)?;
                let read = Conversation::from_session(serde_json::from_str(&stored).map_err(text)?);
                same("the conversation of the session", &read, chat)?;
                *chat = read;
            }
            Reuse::OtherAgent => {
                let mut other = parts::agent(self.case, &self.world);
                other.conversation = std::mem::take(chat);
                self.agent = other;
            }
        }
        Ok(())
    }

    /// Drives a run to its end or to a pause for an approval. Compares it with the expected run of the reference model.
    async fn exact(&mut self, begin: Begin) -> Checked<(Vec<Place>, Journal)> {
        let Self { case, way, .. } = *self;
        let ctx = context();
        self.world.begin(ctx.cancellation_token.clone(), None);
        let (agent, world) = (&mut self.agent, &self.world);
        let run = drive::run(case, way, agent, begin.clone(), &ctx, world, Stop::Never);
        let (ended, waited) = run.await;
        let journal = self.world.note(std::mem::take);
        let Ended::With(outcome) = ended else { return Err(format!("it ended with {ended:?}")) };
        no_faults(&journal)?;
        let (agent, memory) = (&self.agent, &mut self.memory);
        let expected = reference::expect(case, way, memory, begin);
        let what = format!("the events of a run that ended with `{outcome}`");
        for events in &journal.events {
            same_list(&what, events, &expected.events)?;
        }
        same_list("what the guards judge", &journal.guards, &expected.guards)?;
        same_list("the ends that the engine hears of", &journal.ends, &expected.ends)?;
        same_list("the lines", &journal.lines, &expected.lines)?;
        same("the outcome", &outcome, &expected.outcome)?;
        same_list("the history", agent.messages(), &memory.history)?;
        same("the turns", &agent.turns(), &expected.turns)?;
        same("the usage", agent.usage(), &expected.usage)?;
        same("what tools took", agent.tool_usage(), &expected.tool_usage)?;
        same_list("the requests", &journal.requests, &expected.requests)?;
        same_list("the calls that began", &sorted(&journal.begun), &expected.begun)?;
        same_list("the contexts of calls", &sorted(&journal.contexts), &expected.contexts)?;
        same_list("the calls that ended", &sorted(&journal.finished), &expected.finished)?;
        same_list("the scopes", &sorted(&journal.scopes), &expected.scopes)?;
        same("the counters", &self.world.counters(), &memory.counters)?;
        // A run that ends with another error than `ApprovalRequired` reports no pending state.
        let state = memory.state().filter(|_| outcome.starts_with("error ApprovalRequired"));
        let [pending, state] = [&journal.pending, &state].map(serde_json::to_string);
        let text =
            |state: Result<String, serde_json::Error>| state.map_err(|error| error.to_string());
        same("the state of the run that waits", &text(pending)?, &text(state)?)?;
        self.same_calls_wait()?;
        check_history(self.agent.messages())?;
        no_scope_is_open(&journal)?;
        self.check_stored()?;
        self.seen.extend(expected.seen);
        self.note(&journal)?;
        Ok((waited, journal))
    }

    /// Checks that the conversation in the storage equals the agent's conversation at the end of a run.
    fn check_stored(&mut self) -> Checked {
        if !self.case.stores {
            return Ok(());
        }
        self.seen.insert("stored".into());
        let stored = self.world.stored().unwrap_or_default();
        let chat = &self.agent.conversation;
        same_list("the stored history", stored.messages(), chat.messages())?;
        same("what is stored of the calls", &stored.pending(), &chat.pending())?;
        same("the stored usage", stored.usage(), chat.usage())
    }

    /// Returns `false` if the run was interrupted between the question and its write. The session then has the calls as
    /// begun, as after a decision, so that a copy of the pause cannot be told from a used one.
    fn pause_is_stored(&self) -> bool {
        let stored = || self.world.stored().unwrap_or_default();
        !self.case.stores || stored().pending() == self.agent.conversation.pending()
    }

    fn same_calls_wait(&self) -> Checked {
        let waiting = self.memory.waiting.as_ref();
        let pending = waiting.map_or(&[][..], |waiting| &waiting.pending);
        same_list("the calls that wait", &self.agent.pending_calls(), pending)
    }

    /// Records the calls of a run. Checks that no call began twice, and that all idempotency keys of all runs are
    /// different.
    fn note(&mut self, journal: &Journal) -> Checked {
        self.begun.extend(&journal.begun);
        self.finished.extend(&journal.finished);
        self.keys.extend(journal.keys.iter().cloned());
        only_once("a call", self.begun.iter().filter(|call| **call != u64::MAX))?;
        only_once("an idempotency key", self.keys.iter())
    }

    /// Decides on the pending calls as the case says. The case may first send invalid decisions, or continue in another
    /// agent. Returns the start that continues the run, or `None` if no run waits or the waiting run is abandoned.
    async fn decided(&mut self) -> Checked<Option<Begin>> {
        let Some(waiting) = &self.memory.waiting else { return Ok(None) };
        let pending = waiting.pending.clone();
        self.asked += 1;
        match self.asked {
            1 => {}
            2 => drop(self.seen.insert("paused twice".into())),
            _ => drop(self.seen.insert("paused more often".into())),
        }
        let Some(answering) = self.case.answers.get(self.asked - 1) else {
            if self.is_unsure {
                self.restore()?;
            }
            let all = pending
                .iter()
                .fold(ApprovalDecisions::new(), |all, pending| all.approve(&pending.approval_id));
            return Ok(Some(Begin::Decisions(all)));
        };
        self.seen.insert(format!("route: {:?}", answering.route));
        if answering.route == Route::AnotherRun {
            return Ok(None);
        }
        if answering.route == Route::Restored && !self.pause_is_stored() {
            self.seen.insert("route: no copy of a pause that was not stored".into());
        } else if answering.route == Route::Restored || self.is_unsure {
            self.restore()?;
        }
        if let Some(wrong) = answering.wrong {
            let decisions = wrong.decisions(&pending);
            let state = self.memory.state().expect("it waits");
            let text = match state.check(&decisions) {
                Err(error) => error.to_string(),
                Ok(()) => {
                    let id = &pending.last().expect("one waits").call.id;
                    format!(
                        "the edited arguments of the call `{id}` do not fit: invalid input: too large"
                    )
                }
            };
            self.seen.insert(format!("wrong decisions: {wrong:?}"));
            self.refused(decisions, &format!("error Approval: approval: {text}")).await?;
        }
        self.repeated_decisions_are_refused(&pending).await?;
        let decisions = answering.decisions(&pending);
        let decided = pending.iter().filter(|pending| decisions.of(pending).is_some());
        let numbers = decided.map(|pending| Order::read(&pending.call.input).number);
        self.decided = (numbers.collect(), decisions.clone());
        Ok(Some(Begin::Decisions(decisions)))
    }

    /// Sends the last decisions again, while other calls wait.
    async fn repeated_decisions_are_refused(&mut self, pending: &[PendingCall]) -> Checked {
        let (numbers, decisions) = self.decided.clone();
        let is_decided =
            |pending: &PendingCall| numbers.contains(&Order::read(&pending.call.input).number);
        // A run that reached a limit before its decided calls waits for a decision on them again.
        if numbers.is_empty() || pending.iter().any(is_decided) {
            return Ok(());
        }
        self.seen.insert("decisions: repeated".into());
        let state = self.memory.state().expect("it waits");
        match state.check(&decisions) {
            Err(error @ ApprovalError::NotPending { .. }) => {
                self.refused(decisions, &format!("error Approval: approval: {error}")).await
            }
            other => Err(format!("what comes of repeated decisions: {other:?}")),
        }
    }

    /// Checks that the agent rejects these decisions with `error` and changes nothing.
    async fn refused(&mut self, decisions: ApprovalDecisions, error: &str) -> Checked {
        let Self { case, way, .. } = *self;
        let ctx = context();
        let usage = (self.agent.turns(), self.agent.usage().clone());
        self.world.begin(ctx.cancellation_token.clone(), None);
        let (agent, world) = (&mut self.agent, &self.world);
        let run =
            drive::run(case, way, agent, Begin::Decisions(decisions), &ctx, world, Stop::Never);
        let (ended, _) = run.await;
        let journal = self.world.note(std::mem::take);
        same("what comes of wrong decisions", &ended, &Ended::With(error.into()))?;
        if way != Way::Run {
            same_list("the lines of wrong decisions", &journal.lines, &[error])?;
        }
        for events in &journal.events {
            same_list::<String, String>("the events of wrong decisions", events, &[])?;
        }
        same_list::<String, String>("the scopes of wrong decisions", &journal.scopes, &[])?;
        same("the counters", &self.world.counters(), &self.memory.counters)?;
        same_list("the history", self.agent.messages(), &self.memory.history)?;
        same("turns and usage", &(self.agent.turns(), self.agent.usage().clone()), &usage)?;
        self.same_calls_wait()
    }

    /// Replaces the agent by a new one, which is restored from the serialised state of the waiting run.
    fn restore(&mut self) -> Checked {
        let state = self.memory.state().expect("it waits");
        let stored = serde_json::to_string(&state).map_err(|error| error.to_string())?;
        let state: PendingApproval =
            serde_json::from_str(&stored).map_err(|error| error.to_string())?;
        self.agent = parts::agent(self.case, &self.world);
        self.world.forget_passed();
        let mut broken = state.clone();
        broken.messages.pop();
        if self.agent.restore(broken).is_ok() {
            return Err("a state without the results was accepted".into());
        }
        let first = Memory::new(self.case).history;
        same_list("the history after a state that is not whole", self.agent.messages(), &first)?;
        self.memory.restore(&state);
        self.is_unsure = false;
        self.agent.restore(state).map_err(|error| error.to_string())?;
        self.total = None;
        same_list("the restored history", self.agent.messages(), &self.memory.history)?;
        self.same_calls_wait()
    }
}

/// Interrupts a run, checks its state, and then checks the next run. Pauses for approvals split a run into parts, and
/// one of these parts is interrupted.
async fn interrupted(
    case: &Case,
    parts: &[(Vec<Place>, Journal)],
    seen: &mut BTreeSet<String>,
) -> Checked {
    let Interruption { way, how, part, .. } = case.interruption;
    // Mostly a part after a pause.
    let part = match parts.len() - 1 {
        0 => 0,
        resumed => (part * (resumed * 2 + 1) / 1_000).div_ceil(2),
    };
    let (waited, left_alone) = &parts[part];
    let (stop, plan) = match how {
        How::Cancel => (Stop::Cancel(some_wait(case, waited)), None),
        How::Drop => (Stop::Drop(some_wait(case, waited)), None),
        How::DropStep => (Stop::DropStep(some_wait(case, waited)), None),
        How::Panic => (Stop::Never, some_pass(case, left_alone, Plan::Panic)),
        How::CancelWithin => (Stop::Never, some_pass(case, left_alone, Plan::Cancel)),
        How::CancelBefore => (Stop::Never, None),
    };
    let mut session = Session::new(case, way, seen);
    let mut begin = Begin::Message(case.messages[0].clone());
    for _ in 0..part {
        session.exact(begin).await?;
        begin = session.decided().await?.expect("another part follows");
    }
    let ctx = context();
    session.world.begin(ctx.cancellation_token.clone(), plan);
    if how == How::CancelBefore {
        session.world.cancel();
    }
    let compacted = session.world.counters().compacted;
    let (agent, world) = (&mut session.agent, &session.world);
    let run = drive::run(case, way, agent, begin.clone(), &ctx, world, stop);
    let (ended, _) = run.await;
    let now = tokio::time::Instant::now();
    let journal = session.world.note(std::mem::take);
    let before = session.memory.clone();
    let mut after = before.clone();
    let expected = reference::expect(case, way, &mut after, begin);
    let place = plan.map(|(place, ..)| place);
    let finished = session.finished.iter().chain(&journal.finished).copied().collect();
    let interrupted = Interrupted {
        how,
        place,
        case,
        journal,
        finished,
        expected,
        before,
        after,
        agent: &session.agent,
        is_restored: session.total.is_none(),
        ended,
        now,
    };
    interrupted.check(&session.world, session.seen).map_err(|fault| {
        let events = interrupted.journal.events.first();
        format!(
            "{way:?}, {how:?} of part {part} at {stop:?} {plan:?}: {fault}\nevents: {events:#?}"
        )
    })?;
    let compacted = session.world.counters().compacted - compacted;
    let memory = interrupted.memory(&session.world, compacted, session.seen)?;
    let journal = interrupted.journal;
    session.note(&journal)?;
    let Some(memory) = memory else {
        // The outcome of the compactions in the interrupted run is unknown, so the reference cannot compute the next
        // run.
        return Ok(());
    };
    session.memory = memory;
    session.is_unsure = how == How::DropStep;
    let at = format!("{way:?}, going on after {how:?} of part {part} {stop:?}");
    if let Some(begin) = session.decided().await.map_err(|fault| format!("{at}: {fault}"))? {
        session.seen.insert("resumed after an interruption".into());
        let parts = session.whole_run(begin).await;
        parts.map_err(|fault| format!("{at}: {fault}"))?;
    }
    let next = Begin::Message(case.messages[1].clone());
    session.whole_run(next).await.map_err(|fault| format!("{at}: {fault}"))?;
    session.seen.insert("went on after an interruption".into());
    Ok(())
}

/// Selects one of the times that the run waits, to interrupt it there. Returns the number of this wait, counted from
/// one, or 0 if the run never waits. Each place has the same chance, however often the run waits there.
fn some_wait(case: &Case, waited: &[Place]) -> usize {
    let places: BTreeSet<Place> = waited.iter().copied().collect();
    let Some(place) = one_of(&places.into_iter().collect::<Vec<_>>(), case.interruption.place)
    else {
        return 0;
    };
    let times = (1..=waited.len()).filter(|time| waited[time - 1] == place);
    one_of(&times.collect::<Vec<_>>(), case.interruption.nth).unwrap_or_default()
}

/// Selects a place and one of the times that the run passes it, for the interruption `plan`. Returns `None` if the run
/// passes no suitable place.
fn some_pass(case: &Case, journal: &Journal, plan: Plan) -> Option<(Place, usize, Plan)> {
    // A tool that panics fails only its own call, which is not an interruption of the run.
    let can = |place: &Place| *place != Place::Tool || matches!(plan, Plan::Cancel);
    let places: Vec<Place> = journal.passed.keys().copied().filter(can).collect();
    let place = one_of(&places, case.interruption.place)?;
    Some((place, case.interruption.nth * journal.passed[&place] / 1_000, plan))
}

fn one_of<T: Copy>(choices: &[T], thousandths: usize) -> Option<T> {
    choices.get(thousandths * choices.len() / 1_000).copied()
}

/// An interrupted run, and the expected run without an interruption.
struct Interrupted<'a> {
    how: How,
    /// The place at which the agent interrupts itself. `None` if the interruption comes from outside.
    place: Option<Place>,
    case: &'a Case,
    journal: Journal,
    /// Numbers of the calls that ended, in the interrupted part of the run and all earlier parts.
    finished: Vec<u64>,
    expected: Expected,
    /// The state of the reference model before the run. `after` is its state after the same run without an
    /// interruption.
    before: Memory,
    after: Memory,
    agent: &'a Agent,
    is_restored: bool,
    ended: Ended,
    now: tokio::time::Instant,
}

impl Interrupted<'_> {
    fn check(&self, world: &World, seen: &mut BTreeSet<String>) -> Checked {
        no_faults(&self.journal)?;
        check_history(self.agent.messages())?;
        check_history(world.stored().unwrap_or_default().messages())?;
        no_scope_is_open(&self.journal)?;
        only_once("a call", self.journal.begun.iter().filter(|call| **call != u64::MAX))?;
        self.check_results()?;
        self.waiting()?;
        if self.how == How::DropStep {
            // The dropped turn is repeated, so its requests and counters differ from the expected run.
            self.example(seen);
            return Ok(());
        }
        self.check_history()?;
        let counts = (self.agent.turns(), self.agent.usage().clone());
        if !self.expected.counts.contains(&counts) {
            return Err(format!("turns and usage were never {counts:?}"));
        }
        begins("the requests", &self.journal.requests, &self.expected.requests)?;
        for call in &self.journal.begun {
            if !self.expected.begun.contains(call) {
                return Err(format!("call {call} must not begin"));
            }
        }
        match &self.ended {
            Ended::Dropped | Ended::Panicked => self.check_beginning()?,
            Ended::With(outcome) => self.check_end(outcome, seen)?,
        }
        self.example(seen);
        Ok(())
    }

    /// Checks a dropped run. The events of its hooks and the lines of its reader must equal the beginning of the
    /// expected events and lines.
    fn check_beginning(&self) -> Checked {
        for events in &self.journal.events {
            begins("the events", events, &self.expected.events)?;
        }
        begins("the lines", &self.journal.lines, &self.expected.lines)
    }

    /// Checks that a cancelled run ended immediately with all its end events, or had already finished.
    fn check_end(&self, outcome: &str, seen: &mut BTreeSet<String>) -> Checked {
        for events in &self.journal.events {
            check_pairs(events)?;
            same_list("what the hooks saw", events, &self.journal.events[0])?;
        }
        let cancelled = "error Cancelled: cancelled";
        if outcome != self.expected.outcome && outcome != cancelled {
            return Err(format!("it ended with {outcome}"));
        }
        if let Some((last, before)) = self.journal.lines.split_last() {
            same("the last line", last, &outcome.to_owned())?;
            // A call that never reaches the engine has its result in any case. This applies to calls of a hidden tool
            // and to calls that the tool rejects.
            let config = &self.case.config;
            let is_refused = |line: &String| line.contains("invalid input: too large");
            let is_given = config.hides_every.is_none() && !before.iter().any(is_refused);
            if config.engine.is_none() || is_given {
                // If an engine runs calls concurrently, one may stop at the cancellation while a later one finishes.
                let joins = config.engine.as_ref().is_some_and(|engine| engine.joins);
                let is_told = |line: &&String| {
                    !joins || !line.starts_with("ToolResult") || before.contains(line)
                };
                let expected: Vec<_> =
                    self.expected.lines.iter().filter(is_told).cloned().collect();
                begins("the lines", before, &expected)?;
            }
        }
        if self.how == How::CancelBefore {
            same_list("the events", &self.journal.events[0], &["SessionStart s", "SessionEnd s"])?;
            same_list::<String, String>("the scopes", &self.journal.scopes, &[])?;
            seen.insert("error: Cancelled before".into());
        }
        let Some(when) = self.journal.when_cancelled else { return Ok(()) };
        if self.case.config.cancels_after_turn && self.how != How::CancelBefore {
            seen.insert("cancelled after the turn".into());
            return Ok(());
        }
        // An engine finishes its batch. Everything else stops.
        if self.case.config.engine.is_none()
            && (self.journal.requests.len(), self.journal.begun.len())
                != (when.requests, when.begun)
        {
            return Err("something began after the cancellation".into());
        }
        if outcome == cancelled {
            same("the moment of the end", &self.now, &when.at)?;
            seen.insert("error: Cancelled".into());
        } else {
            seen.insert("error: Cancelled or done".into());
        }
        let is_dropped = |scope: &&String| scope.ends_with(": dropped");
        let expected = self.expected.scopes.iter().filter(is_dropped).count();
        if self.journal.scopes.iter().filter(is_dropped).count() > expected {
            return Err(format!("a scope was not ended: {:#?}", self.journal.scopes));
        }
        Ok(())
    }

    /// Checks that the history equals the beginning of an expected history. Only the results of interrupted calls may
    /// differ.
    fn check_history(&self) -> Checked {
        let history = self.agent.messages();
        let is_resumed = self.after.runs == self.before.runs;
        if (is_resumed || !self.has_begun()) && history == self.before.history {
            return Ok(());
        }
        // A run that finishes its turn interrupts no call.
        let cancels = matches!(self.how, How::Cancel | How::CancelWithin);
        let is_whole = cancels && self.case.config.cancels_after_turn;
        let is_like = |expected: &Vec<Message>| {
            let Some((last, rest)) = history.split_last() else { return true };
            expected.len() >= history.len()
                && rest == &expected[..rest.len()]
                && match is_whole {
                    true => *last == expected[rest.len()],
                    false => is_like(last, &expected[rest.len()]),
                }
        };
        match self.expected.histories.iter().any(is_like) {
            true => Ok(()),
            false => Err(format!(
                "there was never this history: {history:#?}\nbut: {:#?}",
                self.expected.histories
            )),
        }
    }

    /// Checks the result of each call in the history. A call that ended must have the result of its tool. A call that
    /// did not end must have a text of the loop, or a result from a hook, a person or an error.
    fn check_results(&self) -> Checked {
        // An engine returns the results of a batch only when all of them are there.
        if self.case.config.engine.is_some() {
            return Ok(());
        }
        for pair in self.agent.messages().windows(2) {
            for (call, result) in pair[0].tool_uses().zip(&pair[1].content) {
                let order = Order::read(call.input);
                let number = order.number;
                let is_meant = |ended: &u64| *ended == number || order.edits().contains(ended);
                let is_finished = self.finished.iter().any(is_meant);
                if number != u64::MAX && is_finished == written_by_loop(result).is_some() {
                    let is_skipped = format!("{result:?}").contains("hook ");
                    let is_supplied = format!("{result:?}").contains("supplied for ");
                    let is_other =
                        call.name == "lost" || is_skipped || is_supplied || is_failure(result);
                    if is_finished || !is_other {
                        return Err(format!("call {number} ended: {is_finished}, but {result:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the state of the reference model after the interruption, from which the next run can be computed.
    /// Returns `None` if this state is unknown, for example if a step was dropped and the history may have been
    /// compacted.
    fn memory(
        &self,
        world: &World,
        compacted: usize,
        seen: &mut BTreeSet<String>,
    ) -> Checked<Option<Memory>> {
        if !self.has_begun() {
            seen.insert("dropped before it began".to_owned());
            return Ok(Some(self.before.clone()));
        }
        let is_unsure = self.how == How::DropStep || self.is_restored;
        // After a compaction it is also unknown which messages of the history the guards accepted.
        let guards = !self.case.config.guards.is_empty();
        let may_compact = compacted > 0 || self.case.config.strategy.above < generator::NEVER;
        if (is_unsure || guards) && may_compact {
            return Ok(None);
        }
        // How often the run asked again before its end is only known from its messages.
        if compacted > 0 && self.after.asked_again != self.before.asked_again {
            return Ok(None);
        }
        let asked = |messages: &[Message]| messages.iter().filter(|it| is_complaint(it)).count();
        let asked_again = asked(self.agent.messages()).saturating_sub(asked(&self.before.history));
        let is_new = self.after.runs != self.before.runs;
        let asked_again = asked_again + if is_new { 0 } else { self.before.asked_again };
        let run = self.before.waiting.as_ref().map_or(0, |waiting| waiting.turns);
        let mut said = self.after.said.clone();
        // A dropped step is repeated, and continues where the reference ended.
        let reminders = self.agent.messages().iter().filter(|message| is_reminder(message));
        said.extend(reminders.map(Message::text));
        let mut memory = Memory {
            history: self.agent.messages().to_vec(),
            said,
            turns: self.before.turns + self.agent.turns() - run,
            counters: world.counters(),
            passed: world.passed().min(self.agent.messages().len()),
            budget: self.expected.budgets.get(compacted).cloned().unwrap_or_default(),
            asked_again,
            waiting: None,
            ..self.after.clone()
        };
        match self.waiting()? {
            Waits::No if self.before.waiting.is_none() => {}
            Waits::No => drop(seen.insert("waits: no more".to_owned())),
            Waits::AsBefore => {
                seen.insert("waits: as before".to_owned());
                memory.waiting = self.before.waiting.clone();
            }
            Waits::AsExpected => {
                seen.insert("waits: as expected".to_owned());
                memory.waiting = self.after.waiting.clone();
            }
            Waits::Interrupted => drop(seen.insert("waits: interrupted".to_owned())),
            Waits::For(state) => memory.wait_for(&state),
        }
        Ok(Some(memory))
    }

    /// Returns `true` if the run was polled. A run that was never polled changes nothing.
    fn has_begun(&self) -> bool {
        !self.journal.events[0].is_empty()
    }

    /// Returns which calls of the agent wait for an approval now. Returns an error if an approval decision was lost
    /// although no call was run.
    fn waiting(&self) -> Checked<Waits> {
        let (pending, history) = (self.agent.pending_calls(), self.agent.messages());
        let is = |memory: &Memory| {
            let waiting = memory.waiting.as_ref();
            waiting.is_some_and(|waiting| waiting.pending == pending) && memory.history == history
        };
        if !self.has_begun() {
            return match self.before.waiting.is_some() && is(&self.before) {
                true => Ok(Waits::AsBefore),
                false if pending.is_empty() => Ok(Waits::No),
                false => Err(format!("it must not wait for {pending:?}")),
            };
        }
        let has_begun =
            |events: &Vec<String>| events.iter().any(|event| event.starts_with("PreTool "));
        let has_begun = self.journal.events.iter().any(has_begun);
        let is_resumed = self.after.runs == self.before.runs;
        let gave_up = |example: &String| example == "last call: instead of calls that wait";
        let is_landing = self.expected.seen.iter().any(gave_up);
        if pending.is_empty() {
            return match is_resumed && !has_begun && !is_landing {
                true => Err("the decisions are lost, and nothing was done".into()),
                false => Ok(Waits::No),
            };
        }
        match &self.journal.pending {
            Some(state) if self.how == How::DropStep => Ok(Waits::For(Box::new(state.clone()))),
            _ if is_resumed && is(&self.before) && !has_begun => Ok(Waits::AsBefore),
            _ if is(&self.after) => Ok(Waits::AsExpected),
            _ if self.may_wait_for(&pending) => Ok(Waits::Interrupted),
            _ => Err(format!("it must not wait for {pending:?}")),
        }
    }

    /// Returns `true` if a dropped run may leave the calls `pending`. All of them must be calls of the last response
    /// that have not begun.
    fn may_wait_for(&self, pending: &[PendingCall]) -> bool {
        let is_dropped = self.how == How::DropStep || !matches!(self.ended, Ended::With(_));
        let last = self.agent.messages().iter().rfind(|message| message.role == Role::Assistant);
        let is_made = |pending: &PendingCall| {
            let mut calls = last.into_iter().flat_map(Message::tool_uses);
            calls.any(|call| call.id == pending.call.id)
        };
        let has_begun = |pending: &PendingCall| {
            self.journal.begun.contains(&Order::read(&pending.call.input).number)
        };
        is_dropped && pending.iter().all(|call| is_made(call) && !has_begun(call))
    }

    fn example(&self, seen: &mut BTreeSet<String>) {
        let cancelled = self.journal.when_cancelled;
        let (what, place) = match (self.how, &self.ended) {
            (How::Cancel, _) if cancelled.is_some() => {
                ("cancelled in", cancelled.and_then(|when| when.place))
            }
            (How::CancelWithin, _) if cancelled.is_some() => ("cancelled by", self.place),
            (How::Drop, Ended::Dropped) => ("dropped in", self.journal.place),
            (How::DropStep, _) if self.journal.dropped_in.is_some() => {
                ("step dropped in", self.journal.dropped_in)
            }
            (How::Panic, Ended::Panicked) => ("panic in", self.place),
            _ => ("not interrupted", None),
        };
        if self.after.runs == self.before.runs {
            seen.insert(format!("a resumed run: {what}"));
        }
        let place = place.map(|place| format!(" {place:?}")).unwrap_or_default();
        seen.insert(format!("{what}{place}"));
    }
}

/// The pending calls of an agent after an interruption.
enum Waits {
    No,
    /// The calls that waited before the interrupted run still wait.
    AsBefore,
    AsExpected,
    /// The run was interrupted within a batch. Some of its calls wait for an approval, and others have not begun.
    Interrupted,
    /// After a dropped step, the run waits for the calls of this state, which the run reported.
    For(Box<PendingApproval>),
}

/// Returns `true` if a message equals the expected message. A tool result may differ if it is a text of the loop about
/// an interrupted call.
fn is_like(message: &Message, expected: &Message) -> bool {
    message.role == expected.role
        && message.content.len() == expected.content.len()
        && message.content.iter().zip(&expected.content).all(|(block, expected)| {
            let is_same_call = block.as_tool_result_id() == expected.as_tool_result_id();
            block == expected || (is_same_call && written_by_loop(block).is_some())
        })
}

/// Returns `true` if the tool result is an error. A call can have an error although its tool did not run, for example
/// if the policy denies the call.
fn is_failure(result: &ContentBlock) -> bool {
    matches!(result, ContentBlock::ToolResult { is_error: true, .. })
}

pub(crate) fn context() -> ToolContext {
    ToolContext {
        session_id: "s".into(),
        run_id: "run".into(),
        cwd: Default::default(),
        ..ToolContext::default()
    }
}

pub(crate) fn check_history(messages: &[Message]) -> Checked {
    transcript::validate(messages).map_err(|violation| format!("{violation}: {messages:#?}"))?;
    for pair in messages.windows(2) {
        let calls: Vec<&str> = pair[0].tool_uses().map(|call| call.id).collect();
        let results = pair[1].content.iter().filter_map(ContentBlock::as_tool_result_id);
        let results: Vec<&str> = results.collect();
        // Only a repaired history has them in another order.
        same_list("the order of the results", &results, &calls)?;
    }
    Ok(())
}

/// Checks that each start event in the log of a hook has exactly one end event.
fn check_pairs(events: &[String]) -> Checked {
    let mut open: Vec<String> = Vec::new();
    for event in events {
        let mut words = event.split(' ');
        let (kind, call) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (begins, ends) = match kind {
            "SessionStart" => (Some("session".to_owned()), None),
            "SessionEnd" => (None, Some("session".to_owned())),
            "RunStart" => (Some("run".to_owned()), None),
            "RunEnd" => (None, Some("run".to_owned())),
            "PreLlm" => (Some("model".to_owned()), None),
            "PostLlm" | "LlmError" => (None, Some("model".to_owned())),
            "PreTool" => (Some(format!("call {call}")), None),
            "PostTool" | "ToolError" => (None, Some(format!("call {call}"))),
            _ => continue,
        };
        if let Some(begins) = begins {
            if open.contains(&begins) {
                return Err(format!("{begins} begins twice"));
            }
            open.push(begins);
        }
        if let Some(ends) = ends {
            let at = open.iter().position(|open| *open == ends);
            open.remove(at.ok_or_else(|| format!("{ends} ends without a beginning"))?);
        }
    }
    same_list::<String, String>("what has no end", &open, &[])
}

pub(crate) fn no_faults(journal: &Journal) -> Checked {
    same_list::<String, String>("what must never be", &journal.faults, &[])
}

pub(crate) fn no_scope_is_open(journal: &Journal) -> Checked {
    same("the open scopes", &journal.open_scopes, &0)
}

pub(crate) fn only_once<'a, T: Ord + Debug + 'a>(
    what: &str,
    all: impl Iterator<Item = &'a T>,
) -> Checked {
    let mut met = BTreeSet::new();
    for one in all {
        if !met.insert(one) {
            return Err(format!("{what} comes twice: {one:?}"));
        }
    }
    Ok(())
}

pub(crate) fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort();
    list
}

pub(crate) fn same<T: PartialEq + Debug>(what: &str, is: &T, expected: &T) -> Checked {
    if is == expected {
        return Ok(());
    }
    Err(format!("{what}:\n is: {is:?}\nnot: {expected:?}"))
}

pub(crate) fn same_list<T: Debug + PartialEq<U>, U: Debug>(
    what: &str,
    is: &[T],
    expected: &[U],
) -> Checked {
    begins(what, is, expected)?;
    match expected.get(is.len()) {
        None => Ok(()),
        Some(missing) => Err(format!("{what}: they lack {missing:?}; they are {is:#?}")),
    }
}

/// Checks that the list `is` equals the first items of the expected list. `what` names the list in the error.
fn begins<T: Debug + PartialEq<U>, U: Debug>(what: &str, is: &[T], expected: &[U]) -> Checked {
    for (index, item) in is.iter().enumerate() {
        let other = expected.get(index);
        if other.is_none_or(|other| item != other) {
            return Err(format!(
                "{what}, number {index}:\n is: {item:?}\nnot: {other:?}\nafter {:#?}",
                &is[..index]
            ));
        }
    }
    Ok(())
}

/// Returns `true` if the loop added this message as a reminder or as the notice about a reached limit.
fn is_reminder(message: &Message) -> bool {
    message.role == Role::System && message.text().starts_with("every ")
}
