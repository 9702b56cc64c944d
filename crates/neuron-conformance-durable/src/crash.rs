//! Runs whose process is killed, at every boundary of their journal and at random moments.
//!
//! A test that calls [`check_killed_runs`] starts itself again, as a process that runs
//! [`Scenario::crash`] on your engine. It kills that process with a signal that nothing can catch, goes on
//! with the run, and compares what came of it with a run that nobody disturbed: the same messages, usage
//! and turns, and [effects](crate::check_effects) as they may be. The result of an
//! [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) call in the middle of which the process died may
//! be [`outcome_unknown`], and no other one.
//!
//! [`check_killed_workers`] is for engines with a server, where the process that is killed (a worker, a
//! service) is not the one that waits for the result.
//!
//! How often is said by a [`CrashPlan`]; `KILL_ROUNDS=500` asks for other random rounds, and `KILL_SEED`
//! repeats the moments of a failure, as far as moments can be repeated.
//!
//! # Example
//!
//! ```no_run
//! use neuron_conformance_durable::{DurableEngine, crash::{self, CrashPlan}};
//! # async fn open(_: String) -> impl DurableEngine { Never }
//! # struct Never;
//! # use neuron_conformance_durable::*;
//! # impl DurableEngine for Never {
//! #     async fn run(&self, _: &str, _: &Scenario, _: &EffectLog) -> Result<neuron_types::AgentResult, RunFailure> {
//! #         Err(RunFailure::new("never"))
//! #     }
//! #     async fn signal(&self, _: &str, _: &str, _: serde_json::Value) -> Result<(), RunFailure> { Ok(()) }
//! # }
//!
//! // In a file of your tests that is called `crash`: this is `cargo test --test crash`.
//! # /*
//! #[tokio::test(flavor = "multi_thread")]
//! # */
//! async fn killed_runs() {
//!     let place = async || {
//!         let directory = std::env::temp_dir().join(format!("crash-{}", std::process::id()));
//!         (directory.display().to_string(), ())
//!     };
//!     let plan = CrashPlan { random_rounds: 50, ..CrashPlan::default() };
//!     let tally = crash::check_killed_runs("killed_runs", plan, place, open).await;
//!     println!("{tally:?}");
//! }
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use neuron_runtime::outcome_unknown;
use neuron_types::{AgentResult, ContentBlock, ToolEffect};
use serde::{Deserialize, Serialize};

use crate::boundary::{self, PASSES, STOPS};
use crate::effects::{self, EffectLog};
use crate::engine::{DurableEngine, run_with_signals};
use crate::scenario::Scenario;
use crate::tools;
use neuron_conformance::case::Case;
use neuron_conformance::child_process::{self, ChildProcess};
use neuron_conformance::random::{Random, unique};

/// What precedes the result of a run that ended in a child.
const ENDED: &str = "ended ";

/// What a child tells first.
const BEGINS: &str = "begins";

/// How long a process may be silent, or a run take. Nothing waits for it to pass.
const HANGING: Duration = Duration::from_secs(120);

/// How often a run is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPlan {
    /// At how many boundaries, in rounds of their own; spread evenly if there are more of them. Default:
    /// all.
    pub boundaries: usize,
    /// How many rounds there are in which the process is killed once to three times, at random moments;
    /// `KILL_ROUNDS` says otherwise. Default: 10.
    pub random_rounds: usize,
}

impl Default for CrashPlan {
    fn default() -> Self {
        Self { boundaries: usize::MAX, random_rounds: 10 }
    }
}

/// How the rounds went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashTally {
    /// The boundaries that an undisturbed run has.
    pub boundaries: usize,
    /// How many runs were disturbed.
    pub rounds: usize,
    /// How often a process was killed.
    pub kills: usize,
    /// How often the outcome of a call was unknown.
    pub unknown_outcomes: usize,
}

/// Checks runs whose process is killed, the one that drives the run and waits for its result.
///
/// `test` is the full name of the test that calls this, as the test runner prints it. `place` makes
/// where the runs are, and what keeps it until the end; it is called once. `open` opens the engine at that
/// place; it is called in every process, and in the test's for every round.
///
/// # Panics
///
/// At the first thing that does not hold; also when the process does not start.
pub async fn check_killed_runs<E: DurableEngine, G>(
    test: &str,
    plan: CrashPlan,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> E,
) -> CrashTally {
    if let Some(task) = Task::of_this_process() {
        let engine = open(task.place.clone()).await;
        child_process::report(BEGINS);
        let (scenario, log) = (Scenario::crash(), EffectLog::new(&task.log));
        let result = run_with_signals(&engine, &task.run_id, &scenario, &log).await;
        let result = result.map_err(|failure| failure.to_string());
        child_process::report(&format!(
            "{ENDED}{}",
            serde_json::to_string(&result).unwrap_or_default()
        ));
        std::process::exit(0);
    }
    let (place, _guard) = place().await;
    let rounds = Rounds::new(test, place.clone());
    let scenario = Scenario::crash();

    // A run that nobody disturbs says what there is.
    let round = rounds.round("undisturbed");
    let told = Arc::new(AtomicBool::new(false));
    let undisturbed = watch_elsewhere(&round, KillAt::Never, told).await;
    let Watched { end: End::Ended(result), boundaries, .. } = undisturbed else {
        round.case.fail("the process did not end the run");
    };
    let expected = round.result(result);
    effects::check(&round.case, &round.log, round.log.model_calls(), 0);
    let expected = Expected { result: expected, model_calls: round.log.model_calls() };

    let mut tally = CrashTally { boundaries, ..CrashTally::default() };
    for (round, kills) in rounds.all(plan, boundaries) {
        let mut died_at = Vec::new();
        for kill in kills {
            let watched = watch_elsewhere(&round, kill, Arc::default()).await;
            match watched.end {
                End::Killed(label) => died_at.push(label),
                End::Ended(_) => break,
                End::Died => round.case.fail("the process ended by itself, without a result"),
            }
        }
        let engine = open(place.clone()).await;
        let run = run_with_signals(&engine, &round.run_id, &scenario, &round.log);
        let result = round.case.ok(round.ends(run).await);
        drop(engine);
        tally.add(&round, &expected, &result, &died_at);

        // A process that knows nothing of the others finds the end.
        let (before, engine) = (round.log.effects().len(), open(place.clone()).await);
        let run = engine.run(&round.run_id, &scenario, &round.log);
        let again = round.case.ok(round.ends(run).await);
        round.case.equal("the result of the run that has ended", &again, &result);
        round.has_no_effect_since(before);
    }
    tally
}

/// Checks runs whose worker is killed: the process that hosts the agent, its model and its tools for an
/// engine with a server.
///
/// As [`check_killed_runs`]; `open` gives a client of the engine, which starts runs and waits for them, and
/// `serve` hosts this scenario with this log until its process is killed. It is called in processes of its
/// own.
///
/// # Panics
///
/// At the first thing that does not hold; also when the process does not start.
pub async fn check_killed_workers<E: DurableEngine, G>(
    test: &str,
    plan: CrashPlan,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> E,
    serve: impl AsyncFn(String, Scenario, EffectLog) -> Infallible,
) -> CrashTally {
    if let Some(task) = Task::of_this_process() {
        child_process::report(BEGINS);
        serve(task.place, Scenario::crash(), EffectLog::new(&task.log)).await;
    }
    let (place, _guard) = place().await;
    let rounds = Rounds::new(test, place.clone());
    let scenario = Scenario::crash();
    let engine = open(place).await;

    let round = rounds.round("undisturbed");
    let (result, watched) = with_workers(&engine, &round, Vec::new()).await;
    effects::check(&round.case, &round.log, round.log.model_calls(), 0);
    let expected = Expected { result, model_calls: round.log.model_calls() };
    let boundaries = watched.iter().map(|watched| watched.boundaries).sum();

    let mut tally = CrashTally { boundaries, ..CrashTally::default() };
    for (round, kills) in rounds.all(plan, boundaries) {
        let (result, watched) = with_workers(&engine, &round, kills).await;
        let died_at = watched.into_iter().filter_map(|watched| match watched.end {
            End::Killed(label) => Some(label),
            _ => None,
        });
        tally.add(&round, &expected, &result, &died_at.collect::<Vec<_>>());
        let before = round.log.effects().len();
        let run = engine.run(&round.run_id, &scenario, &round.log);
        let again = round.case.ok(round.ends(run).await);
        round.case.equal("the result of the run that has ended", &again, &result);
        round.has_no_effect_since(before);
    }
    tally
}

/// Runs while workers are killed one after the other; the last of them stays until the end.
async fn with_workers(
    engine: &impl DurableEngine,
    round: &Round<'_>,
    kills: Vec<KillAt>,
) -> (AgentResult, Vec<Watched>) {
    let ended = Arc::new(AtomicBool::new(false));
    let workers = async {
        let mut watched = Vec::new();
        for kill in kills.into_iter().chain([KillAt::Never]) {
            watched.push(watch_elsewhere(round, kill, ended.clone()).await);
            if ended.load(Ordering::SeqCst) {
                break;
            }
        }
        watched
    };
    let scenario = Scenario::crash();
    let run = async {
        let run = run_with_signals(engine, &round.run_id, &scenario, &round.log);
        let result = round.ends(run).await;
        ended.store(true, Ordering::SeqCst);
        result
    };
    let (result, watched) = futures_util::future::join(run, workers).await;
    (round.case.ok(result), watched)
}

/// What a child is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    /// The boundary to stand still at.
    stop: u64,
    run_id: String,
    log: PathBuf,
    place: String,
}

impl Task {
    /// In a child: what it is to do, from now on.
    #[expect(clippy::expect_used, reason = "for tests")]
    fn of_this_process() -> Option<Self> {
        let task: Self = serde_json::from_str(&child_process::task()?).expect("an task");
        boundary::stop_at(task.stop);
        Some(task)
    }
}

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum KillAt {
    /// At the boundary of this number, from one, that it comes to.
    Boundary(u64),
    /// So long after it began.
    After(Duration),
    Never,
}

/// What became of a process.
struct Watched {
    end: End,
    /// How many boundaries it passed.
    boundaries: usize,
}

enum End {
    /// It was killed at this boundary, or after the boundary before it.
    Killed(Label),
    /// It ended the run.
    Ended(String),
    /// It ended by itself, or is not needed any more.
    Died,
}

/// Where a process was killed.
struct Label {
    name: String,
    /// Whether it stood still there.
    is_exact: bool,
}

impl Label {
    /// Whether a call may have been interrupted here.
    fn is_within_a_call(&self) -> bool {
        let is_outside = self.name.starts_with("engine: ") || self.name.starts_with("model: ");
        !(self.is_exact && is_outside)
    }
}

/// Watches a process without holding up what runs beside it.
async fn watch_elsewhere(round: &Round<'_>, kill: KillAt, is_over: Arc<AtomicBool>) -> Watched {
    let (test, task) = (round.rounds.test.to_owned(), round.task(kill));
    let watching = tokio::task::spawn_blocking(move || watch(&test, &task, kill, &is_over));
    match watching.await {
        Ok(watched) => watched,
        Err(error) => round.case.fail(format_args!("nobody watches the process: {error}")),
    }
}

/// Starts a process, and kills it when it is time.
fn watch(test: &str, task: &str, kill: KillAt, is_over: &AtomicBool) -> Watched {
    let mut child = ChildProcess::start(test, task);
    let (mut boundaries, mut last, mut heard) = (0, String::new(), Instant::now());
    let mut deadline = None;
    loop {
        let longest = match deadline {
            Some(deadline) => Instant::saturating_duration_since(&deadline, Instant::now()),
            None => Duration::from_millis(20),
        };
        let mut report = child.next_report(longest.min(Duration::from_millis(20)));
        let has_ended = report.is_none() && child.has_ended();
        if has_ended {
            // What it told at last.
            report = child.next_report(HANGING);
        }
        let killed = |name: String, is_exact| End::Killed(Label { name, is_exact });
        if let Some(report) = &report {
            heard = Instant::now();
            if let Some(name) = report.strip_prefix(STOPS) {
                drop(child);
                return Watched { end: killed(name.to_owned(), true), boundaries };
            }
            if let Some(result) = report.strip_prefix(ENDED) {
                return Watched { end: End::Ended(result.to_owned()), boundaries };
            }
            if let Some(name) = report.strip_prefix(PASSES) {
                boundaries += 1;
                last = name.to_owned();
            }
            if let (BEGINS, KillAt::After(moment)) = (report.as_str(), kill) {
                deadline = Some(Instant::now() + moment);
            }
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            drop(child);
            return Watched { end: killed(last, false), boundaries };
        }
        let is_silent = has_ended || heard.elapsed() > HANGING || is_over.load(Ordering::SeqCst);
        if report.is_none() && is_silent {
            return Watched { end: End::Died, boundaries };
        }
    }
}

/// All rounds of one test.
struct Rounds<'t> {
    test: &'t str,
    place: String,
    prefix: String,
    logs: Logs,
}

/// A directory that goes with its value.
struct Logs(PathBuf);

impl Drop for Logs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the run did:\n{}", self.newest().unwrap_or_default());
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Logs {
    /// The log of the run that was the last to do something.
    fn newest(&self) -> Option<String> {
        let logs = std::fs::read_dir(&self.0).ok()?.filter_map(Result::ok);
        let newest =
            logs.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
        std::fs::read_to_string(newest?.path()).ok()
    }
}

impl<'t> Rounds<'t> {
    #[expect(clippy::expect_used, reason = "for tests")]
    fn new(test: &'t str, place: String) -> Self {
        let prefix = format!("crash-{:016x}", unique());
        let logs = std::env::temp_dir().join(format!("neuron-{prefix}"));
        std::fs::create_dir_all(&logs).expect("a directory for logs");
        Self { test, place, prefix, logs: Logs(logs) }
    }

    fn round(&self, name: &str) -> Round<'_> {
        let run_id = format!("{}-{name}", self.prefix);
        let log = EffectLog::new(self.logs.0.join(&run_id));
        let name = format!("{name} of {}", self.test);
        Round { rounds: self, run_id, log, case: Case::new("durable engine", "crash", name) }
    }

    /// Each round with its kills.
    fn all(
        &self,
        plan: CrashPlan,
        boundaries: usize,
    ) -> impl Iterator<Item = (Round<'_>, Vec<KillAt>)> {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed: u64 = number("KILL_SEED").unwrap_or_else(unique);
        let random_rounds = number("KILL_ROUNDS").unwrap_or(plan.random_rounds as u64);
        let mut random = Random::new(seed);
        let count = plan.boundaries.min(boundaries);
        let at_boundaries = (0..count).map(move |index| {
            // From the first to the last.
            let boundary =
                1 + (index * boundaries.saturating_sub(1)) / count.saturating_sub(1).max(1);
            let round = self.round(&format!("boundary-{boundary}"));
            (round, vec![KillAt::Boundary(boundary as u64)])
        });
        let at_random = (0..random_rounds).map(move |index| {
            let mut round = self.round(&format!("random-{index}"));
            round.case = round.case.step(format_args!("with KILL_SEED={seed}"));
            let kills = (0..=random.below(3)).map(|_| {
                // Most of them while it runs.
                let longest = 1 << random.below(18);
                KillAt::After(Duration::from_micros(random.below(longest)))
            });
            (round, kills.collect())
        });
        at_boundaries.chain(at_random)
    }
}

/// One run.
struct Round<'t> {
    rounds: &'t Rounds<'t>,
    run_id: String,
    log: EffectLog,
    case: Case,
}

impl Round<'_> {
    fn task(&self, kill: KillAt) -> String {
        let stop = match kill {
            KillAt::Boundary(number) => number,
            KillAt::After(_) | KillAt::Never => 0,
        };
        let task = Task {
            stop,
            run_id: self.run_id.clone(),
            log: self.log.path().to_owned(),
            place: self.rounds.place.clone(),
        };
        self.case.ok(serde_json::to_string(&task))
    }

    fn result(&self, json: String) -> AgentResult {
        let result: Result<AgentResult, String> = self.case.ok(serde_json::from_str(&json));
        self.case.ok(result)
    }

    async fn ends<T>(&self, run: impl Future<Output = T>) -> T {
        let ended = tokio::time::timeout(HANGING, run).await;
        self.case.some("the run does not end", ended.ok())
    }

    /// An ended run does nothing.
    fn has_no_effect_since(&self, before: usize) {
        let effects = self.log.effects();
        let new = effects.get(before..).unwrap_or_default();
        let real = new.iter().find(|effect| effect.kind.is_effect());
        self.case.equal("what the run that has ended did", real, None::<&effects::Effect>);
    }
}

struct Expected {
    result: AgentResult,
    model_calls: usize,
}

impl CrashTally {
    /// Checks what came of a round, and counts it.
    fn add(
        &mut self,
        round: &Round<'_>,
        expected: &Expected,
        result: &AgentResult,
        died: &[Label],
    ) {
        let places: Vec<_> = died.iter().map(|label| label.name.as_str()).collect();
        let case = round.case.step(format_args!("killed at {places:?}"));
        effects::check(&case, &round.log, expected.model_calls, died.len());
        let mut known = result.clone();
        let may_be_unknown = died.iter().any(Label::is_within_a_call);
        let unknown = make_known(&mut known, &expected.result);
        case.holds(
            unknown == 0 || may_be_unknown,
            "the outcome of a call is unknown that was recorded, or not begun",
        );
        case.holds(unknown <= died.len(), "more outcomes are unknown than processes were killed");
        case.equal("the number of messages", known.messages.len(), expected.result.messages.len());
        for (index, pair) in known.messages.iter().zip(&expected.result.messages).enumerate() {
            case.equal(&format!("message {index}"), pair.0, pair.1);
        }
        case.equal("the result", &known, &expected.result);
        self.rounds += 1;
        self.kills += died.len();
        self.unknown_outcomes += unknown;
    }
}

/// Puts the expected results in the place of those that say that the outcome is unknown, where that may
/// be, and counts them.
fn make_known(result: &mut AgentResult, expected: &AgentResult) -> usize {
    let mut unknown = 0;
    let names: Vec<(String, String)> = result
        .messages
        .iter()
        .flat_map(|message| message.tool_uses().map(|call| (call.id.into(), call.name.into())))
        .collect();
    for (message, expected) in result.messages.iter_mut().zip(&expected.messages) {
        for (block, expected) in message.content.iter_mut().zip(&expected.content) {
            let ContentBlock::ToolResult { tool_use_id, content, is_error, .. } = &*block else {
                continue;
            };
            let Some((_, name)) = names.iter().find(|(id, _)| id == tool_use_id) else { continue };
            let told = outcome_unknown(name);
            let is_at_most_once = tools::effect_of(name) == ToolEffect::AtMostOnce;
            if is_at_most_once && *is_error && *content == told.content {
                *block = expected.clone();
                unknown += 1;
            }
        }
    }
    unknown
}
