//! One case from its seed: run in the three ways and compared with the reference; then interrupted,
//! and held to what is true at any point; then continued, and compared with the reference again.

use std::collections::BTreeSet;
use std::fmt::Debug;

use neuron_types::{ContentBlock, Message, TokenUsage, ToolContext, transcript};

use crate::case::*;
use crate::drive::{self, Ended, Stop};
use crate::generator;
use crate::parts::{self, Agent};
use crate::reference::{self, Expected, Memory, written_by_loop};
use crate::world::{Journal, Plan, World};

type Checked<T = ()> = Result<T, String>;

/// Tries a case; returns what it was an example of, or what is wrong.
pub(crate) async fn case(seed: u64) -> Checked<BTreeSet<String>> {
    let case = generator::case(seed);
    let mut seen = BTreeSet::new();
    if transcript::validate(&case.config.history).is_err() {
        seen.insert("history: repaired at first".to_owned());
    }
    for way in WAYS {
        let (waited, journal) = left_alone(&case, way, &mut seen).await?;
        if way == case.interruption.way {
            interrupted(&case, &waited, &journal, &mut seen).await?;
        }
    }
    Ok(seen)
}

/// Two runs that nobody interrupts. Returns where the first waited, and its journal.
async fn left_alone(
    case: &Case,
    way: Way,
    seen: &mut BTreeSet<String>,
) -> Checked<(Vec<Place>, Journal)> {
    let world = World::new(case.config.hooks.len());
    let mut agent = parts::agent(case, &world);
    let mut memory = Memory::new(case);
    let mut first = None;
    let mut total = TokenUsage::default();
    for (index, message) in case.messages.iter().enumerate() {
        let at = format!("{way:?}, run {index}");
        let run = exact(case, way, &mut agent, &world, &mut memory, message, seen).await;
        first = first.or(Some(run.map_err(|fault| format!("{at}: {fault}"))?));
        total += agent.usage();
    }
    same("the usage of all runs", agent.total_usage(), &total)?;
    Ok(first.expect("there are two runs"))
}

/// A run that must be as the reference says.
async fn exact(
    case: &Case,
    way: Way,
    agent: &mut Agent,
    world: &World,
    memory: &mut Memory,
    message: &Message,
    seen: &mut BTreeSet<String>,
) -> Checked<(Vec<Place>, Journal)> {
    let ctx = context();
    world.begin(ctx.cancellation_token.clone(), None);
    let stop = Stop::Never;
    let (ended, waited) = drive::run(case, way, agent, message.clone(), &ctx, world, stop).await;
    let journal = world.note(std::mem::take);
    let Ended::With(outcome) = ended else { return Err(format!("it ended with {ended:?}")) };
    no_faults(&journal)?;
    let expected = reference::expect(case, way, memory, message.clone());
    for events in &journal.events {
        same_list("the events", events, &expected.events)?;
    }
    same_list("the lines", &journal.lines, &expected.lines)?;
    same("the outcome", &outcome, &expected.outcome)?;
    same_list("the history", agent.messages(), &memory.history)?;
    same("the turns", &agent.turns(), &expected.turns)?;
    same("the usage", agent.usage(), &expected.usage)?;
    same_list("the requests", &journal.requests, &expected.requests)?;
    same_list("the calls that began", &sorted(&journal.begun), &expected.begun)?;
    same_list("the calls that ended", &sorted(&journal.finished), &expected.finished)?;
    same_list("the scopes", &sorted(&journal.scopes), &expected.scopes)?;
    same("the counters", &world.counters(), &memory.counters)?;
    check_history(agent.messages())?;
    no_scope_is_open(&journal)?;
    seen.extend(expected.seen);
    Ok((waited, journal))
}

/// A run that is interrupted, and the next one.
async fn interrupted(
    case: &Case,
    waited: &[Place],
    left_alone: &Journal,
    seen: &mut BTreeSet<String>,
) -> Checked {
    let Interruption { way, how, .. } = case.interruption;
    let (stop, plan) = match how {
        How::Cancel => (Stop::Cancel(some_wait(case, waited)), None),
        How::Drop => (Stop::Drop(some_wait(case, waited)), None),
        How::DropStep => (Stop::DropStep(some_wait(case, waited)), None),
        How::Panic => (Stop::Never, some_pass(case, left_alone, Plan::Panic)),
        How::CancelWithin => (Stop::Never, some_pass(case, left_alone, Plan::Cancel)),
        How::CancelBefore => (Stop::Never, None),
    };
    let world = World::new(case.config.hooks.len());
    let mut agent = parts::agent(case, &world);
    let ctx = context();
    world.begin(ctx.cancellation_token.clone(), plan);
    if how == How::CancelBefore {
        world.cancel();
    }
    let message = case.messages[0].clone();
    let (ended, _) = drive::run(case, way, &mut agent, message, &ctx, &world, stop).await;
    let now = tokio::time::Instant::now();
    let journal = world.note(std::mem::take);
    let expected = reference::expect(case, way, &mut Memory::new(case), case.messages[0].clone());
    let place = plan.map(|(place, ..)| place);
    let interrupted =
        Interrupted { how, place, case, journal, expected, agent: &agent, ended, now };
    interrupted.check(seen).map_err(|fault| {
        let events = interrupted.journal.events.first();
        format!("{way:?}, {how:?} at {stop:?} {plan:?}: {fault}\nevents: {events:#?}")
    })?;
    if how == How::DropStep && case.config.strategy.above < generator::NEVER {
        // What came of its compactions, nobody saw.
        return Ok(());
    }
    let compacted = world.counters().compacted;
    let mut memory = Memory {
        history: agent.messages().to_vec(),
        turns: agent.turns(),
        counters: world.counters(),
        budget: interrupted.expected.budgets.get(compacted).cloned().unwrap_or_default(),
    };
    let begun = interrupted.journal.begun.clone();
    let keys = interrupted.journal.keys.clone();
    let after = exact(case, way, &mut agent, &world, &mut memory, &case.messages[1], seen).await;
    let (_, journal) =
        after.map_err(|fault| format!("{way:?}, going on after {how:?} {stop:?}: {fault}"))?;
    only_once("a call", begun.iter().chain(&journal.begun).filter(|call| **call != u64::MAX))?;
    only_once("an idempotency key", keys.iter().chain(&journal.keys))?;
    seen.insert("went on after an interruption".into());
    Ok(())
}

/// One of the times that the run waits. Places count alike, however often it waits there.
fn some_wait(case: &Case, waited: &[Place]) -> usize {
    let places: BTreeSet<Place> = waited.iter().copied().collect();
    let Some(place) = one_of(&places.into_iter().collect::<Vec<_>>(), case.interruption.place)
    else {
        return 0;
    };
    let times = (1..=waited.len()).filter(|time| waited[time - 1] == place);
    one_of(&times.collect::<Vec<_>>(), case.interruption.nth).unwrap_or_default()
}

/// One of the times that something happens.
fn some_pass(case: &Case, journal: &Journal, plan: Plan) -> Option<(Place, usize, Plan)> {
    // A tool that panics ends its call alone: a deed of the tool's, not an interruption.
    let can = |place: &Place| *place != Place::Tool || matches!(plan, Plan::Cancel);
    let places: Vec<Place> = journal.passed.keys().copied().filter(can).collect();
    let place = one_of(&places, case.interruption.place)?;
    Some((place, case.interruption.nth * journal.passed[&place] / 1_000, plan))
}

fn one_of<T: Copy>(choices: &[T], thousandths: usize) -> Option<T> {
    choices.get(thousandths * choices.len() / 1_000).copied()
}

/// A run that was interrupted, and what it would have been.
struct Interrupted<'a> {
    how: How,
    /// Where something was planned.
    place: Option<Place>,
    case: &'a Case,
    journal: Journal,
    expected: Expected,
    agent: &'a Agent,
    ended: Ended,
    now: tokio::time::Instant,
}

impl Interrupted<'_> {
    fn check(&self, seen: &mut BTreeSet<String>) -> Checked {
        no_faults(&self.journal)?;
        check_history(self.agent.messages())?;
        no_scope_is_open(&self.journal)?;
        only_once("a call", self.journal.begun.iter().filter(|call| **call != u64::MAX))?;
        self.check_results()?;
        if self.how == How::DropStep {
            // The turn that was dropped is made up for, so that what follows differs.
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

    /// Nothing is heard of a run that stopped in the middle but what was heard until then.
    fn check_beginning(&self) -> Checked {
        for events in &self.journal.events {
            begins("the events", events, &self.expected.events)?;
        }
        begins("the lines", &self.journal.lines, &self.expected.lines)
    }

    /// A cancelled run ends, at once and in order; or it was done already.
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
            // A call that an engine is not given has its result, whatever became of the others.
            let config = &self.case.config;
            if config.engine.is_none() || config.hides_every.is_none() {
                begins("the lines", before, &self.expected.lines)?;
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
        // An engine runs its batch as it must; everything else stops.
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

    /// The history is one that the run had, but for results of calls that did not come to their end.
    fn check_history(&self) -> Checked {
        let history = self.agent.messages();
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

    /// A call that ended has its own result, and only such a call.
    fn check_results(&self) -> Checked {
        // An engine keeps the results of a batch to itself until all are there.
        if self.case.config.engine.is_some() {
            return Ok(());
        }
        for pair in self.agent.messages().windows(2) {
            for (call, result) in pair[0].tool_uses().zip(&pair[1].content) {
                let number = Order::read(call.input).number;
                let is_finished = self.journal.finished.contains(&number);
                if number != u64::MAX && is_finished == written_by_loop(result).is_some() {
                    let is_skipped = format!("{result:?}").contains("hook ");
                    let is_other = call.name == "lost" || is_skipped || is_failure(result);
                    if is_finished || !is_other {
                        return Err(format!("call {number} ended: {is_finished}, but {result:?}"));
                    }
                }
            }
        }
        Ok(())
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
        let place = place.map(|place| format!(" {place:?}")).unwrap_or_default();
        seen.insert(format!("{what}{place}"));
    }
}

/// Whether a message is as expected, but for results that say that a call did not come to its end.
fn is_like(message: &Message, expected: &Message) -> bool {
    message.role == expected.role
        && message.content.len() == expected.content.len()
        && message.content.iter().zip(&expected.content).all(|(block, expected)| {
            let is_same_call = block.as_tool_result_id() == expected.as_tool_result_id();
            block == expected || (is_same_call && written_by_loop(block).is_some())
        })
}

/// Whether a result is that of a call that a tool's error ended before it could do anything.
fn is_failure(result: &ContentBlock) -> bool {
    matches!(result, ContentBlock::ToolResult { is_error: true, .. })
}

fn context() -> ToolContext {
    ToolContext {
        session_id: "s".into(),
        run_id: "run".into(),
        cwd: Default::default(),
        ..ToolContext::default()
    }
}

fn check_history(messages: &[Message]) -> Checked {
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

/// Every beginning that the hooks were told of has one end.
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

fn no_faults(journal: &Journal) -> Checked {
    same_list::<String, String>("what must never be", &journal.faults, &[])
}

fn no_scope_is_open(journal: &Journal) -> Checked {
    same("the open scopes", &journal.open_scopes, &0)
}

fn only_once<'a, T: Ord + Debug + 'a>(what: &str, all: impl Iterator<Item = &'a T>) -> Checked {
    let mut met = BTreeSet::new();
    for one in all {
        if !met.insert(one) {
            return Err(format!("{what} comes twice: {one:?}"));
        }
    }
    Ok(())
}

fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort();
    list
}

fn same<T: PartialEq + Debug>(what: &str, is: &T, expected: &T) -> Checked {
    if is == expected {
        return Ok(());
    }
    Err(format!("{what}:\n is: {is:?}\nnot: {expected:?}"))
}

fn same_list<T: Debug + PartialEq<U>, U: Debug>(what: &str, is: &[T], expected: &[U]) -> Checked {
    begins(what, is, expected)?;
    match expected.get(is.len()) {
        None => Ok(()),
        Some(missing) => Err(format!("{what}: they lack {missing:?}; they are {is:#?}")),
    }
}

/// A list is the beginning of another.
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
