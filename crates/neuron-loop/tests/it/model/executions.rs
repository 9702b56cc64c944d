//! Runs each case in two forms, which must have equal outcomes. In the first form, a durable engine splits the run into
//! several executions, and approval decisions arrive through signals. In the second form, the run has one execution and
//! ends at each pause for an approval.

use std::collections::BTreeSet;

use neuron_types::{Message, PendingApproval, RunSnapshot, Start, TokenUsage};

use crate::model::case::*;
use crate::model::check::{
    Checked, check_history, context, no_faults, no_scope_is_open, only_once, same, same_list,
    sorted,
};
use crate::model::drive::{self, Ended, Stop};
use crate::model::parts::{self, Agent};
use crate::model::world::{Journal, World};

/// The first words of events that occur in each execution. All other events are the same for any number of executions.
const OF_EXECUTIONS: [&str; 4] = ["SessionStart", "RunStart", "RunEnd", "SessionEnd"];

pub(crate) async fn check(case: &Case, seen: &mut BTreeSet<String>) -> Checked {
    let mut case = case.clone();
    let nth = case.interruption.nth;
    if nth.is_multiple_of(2) && case.config.engine.is_none() {
        case.config.engine = Some(Engine::default());
    }
    let Some(engine) = &mut case.config.engine else { return Ok(()) };
    engine.continues = None;
    for rules in &mut case.config.hooks {
        rules.retain(|rule| !OF_EXECUTIONS.contains(&rule.event));
    }
    // Situations that are rare otherwise.
    if nth % 3 == 1 {
        case.config.retry_limit = Some(1);
    }
    if let (0, Some(first)) = (nth % 8, case.answers.first_mut()) {
        first.route = Route::AnotherRun;
    }
    let expected = by_hand(&case).await?;

    let turns = 1 + nth / 2 % 3;
    let signals = case.config.pauses;
    case.config.engine =
        case.config.engine.map(|engine| Engine { every: Some(turns), signals, ..engine });
    let (whole, executions) = by_the_engine(&case).await?;
    let how = match executions {
        1 => "one",
        2 => "two",
        _ => "several",
    };
    seen.insert(format!("executions: {how}"));
    if !whole.asked.is_empty() {
        seen.insert("executions: a signal".into());
        if executions > 1 {
            seen.insert("executions: a signal and several".into());
        }
        if whole.outcome.starts_with("error ApprovalRequired") {
            seen.insert("executions: nobody".into());
        }
    }
    whole.compare(&expected)
}

/// The observations of a run over all its executions and pauses.
struct Whole {
    journal: Journal,
    outcome: String,
    asked: Vec<PendingApproval>,
    history: Vec<Message>,
    turns: usize,
    usage: [TokenUsage; 4],
}

impl Whole {
    fn of(journal: Journal, outcome: String, asked: Vec<PendingApproval>, agent: &Agent) -> Self {
        let usage =
            [agent.usage(), agent.tool_usage(), agent.estimated_usage(), agent.total_usage()];
        Self {
            journal,
            outcome,
            asked,
            history: agent.messages().to_vec(),
            turns: agent.turns(),
            usage: usage.map(Clone::clone),
        }
    }

    fn compare(&self, expected: &Self) -> Checked {
        let (journal, other) = (&self.journal, &expected.journal);
        no_faults(journal)?;
        no_scope_is_open(journal)?;
        check_history(&self.history)?;
        only_once("an idempotency key", journal.keys.iter())?;
        for (events, other) in journal.events.iter().zip(&other.events) {
            same_list(
                "the events",
                &without(events, &OF_EXECUTIONS),
                &without(other, &OF_EXECUTIONS),
            )?;
        }
        // Lines that start with `error` or `executed` are not compared. Only the run that is resumed by hand ends with
        // an error at each pause, and its steps have other lines after a wait.
        let of_parts = ["error", "executed"];
        let lines = [journal, other].map(|journal| without(&journal.lines, &of_parts));
        same_list("the lines", &lines[0], &lines[1])?;
        same("the outcome", &self.outcome, &expected.outcome)?;
        same_list("what persons were asked", &self.asked, &expected.asked)?;
        same_list("the history", &self.history, &expected.history)?;
        same("the turns", &self.turns, &expected.turns)?;
        same("the usage", &self.usage, &expected.usage)?;
        same_list("the requests", &journal.requests, &other.requests)?;
        same_list("the calls that began", &sorted(&journal.begun), &sorted(&other.begun))?;
        same_list("the calls that ended", &sorted(&journal.finished), &sorted(&other.finished))?;
        same_list("the keys", &sorted(&journal.keys), &sorted(&other.keys))?;
        let scopes = [journal, other].map(|journal| sorted(&without(&journal.scopes, &["run"])));
        same_list("the scopes", &scopes[0], &scopes[1])
    }
}

fn without(lines: &[String], words: &[&str]) -> Vec<String> {
    let is_other = |line: &&String| {
        let word = line.split(' ').next().unwrap_or_default();
        !words.contains(&word)
    };
    lines.iter().filter(is_other).cloned().collect()
}

/// Runs the case in one execution. The run ends at each pause for an approval, and is then resumed with the decisions.
async fn by_hand(case: &Case) -> Checked<Whole> {
    let world = world(case);
    let mut agent = parts::agent(case, &world);
    let mut begin = Begin::Message(case.messages[0].clone());
    let mut asked = Vec::new();
    loop {
        let outcome = part(case, &mut agent, begin, &world).await?;
        let pending = world.note(|journal| journal.pending.take());
        let answering = case.answers.get(asked.len());
        let decisions = pending.map(|pending| {
            let decisions = parts::decisions(answering, &pending);
            asked.push(pending);
            decisions
        });
        match decisions {
            Some(decisions)
                if answering.is_none_or(|answering| answering.route != Route::AnotherRun) =>
            {
                begin = Begin::Decisions(decisions);
            }
            _ => return Ok(Whole::of(world.note(std::mem::take), outcome, asked, &agent)),
        }
    }
}

/// Runs the case in several executions, as a durable engine does. Each execution has a new agent. Returns the
/// observations and the number of executions.
async fn by_the_engine(case: &Case) -> Checked<(Whole, usize)> {
    let world = world(case);
    let mut start = Start::from(case.messages[0].clone());
    let mut executions = 0;
    loop {
        executions += 1;
        let mut agent = parts::agent(case, &world);
        let outcome = part(case, &mut agent, Begin::Start(start), &world).await?;
        let Some(state) = world.note(|journal| journal.state.take()) else {
            let journal = world.note(std::mem::take);
            let asked = journal.asked.clone();
            return Ok((Whole::of(journal, outcome, asked, &agent), executions));
        };
        let stored = state.to_string();
        let snapshot = serde_json::from_str::<RunSnapshot>(&stored);
        start = snapshot.map_err(|error| error.to_string())?.into();
    }
}

fn world(case: &Case) -> World {
    let world = World::new(case.config.hooks.len());
    world.begin(context().cancellation_token, None);
    world
}

async fn part(case: &Case, agent: &mut Agent, begin: Begin, world: &World) -> Checked<String> {
    let (ctx, way) = (context(), case.interruption.way);
    let run = drive::run(case, way, agent, begin, &ctx, world, Stop::Never);
    match run.await.0 {
        Ended::With(outcome) => Ok(outcome),
        ended => Err(format!("it ended with {ended:?}")),
    }
}
