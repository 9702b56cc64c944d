//! Crash tests, which kill the process of a run at boundaries and at random moments. A boundary is a call of
//! [`boundary`](crate::boundary()).
//!
//! A test that calls [`check_killed_runs`] starts its own binary again as a child process. The child process runs
//! [`Scenario::crash`] on your engine and is killed with `SIGKILL`. The test then resumes the run and compares it with
//! an undisturbed run. The messages, the usage and the turns must be equal, and the [effects](crate::check_effects)
//! must be permitted. If the process was killed during an [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) call,
//! the result of that call may be [`outcome_unknown`] instead.
//!
//! Use [`check_killed_workers`] for engines with a server. There the killed process is a worker or service, and another
//! process waits for the result.
//!
//! A [`CrashPlan`] sets the number of rounds. A round is a new run whose process is killed. Environment variables
//! override the plan:
//!
//! - `KILL_ROUNDS=500` sets the number of rounds with random moments.
//! - `KILL_BOUNDARIES=1000` sets the maximum number of boundaries. Each boundary has one round.
//! - `KILL_SEED` repeats the random moments of a failed test, as far as the operating system allows.
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

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use neuron_conformance::case::Case;
use neuron_conformance::child_process::{self, ChildProcess};
use neuron_conformance::random::{Random, from_env, unique};
use neuron_durable::outcome_unknown;
use neuron_types::{AgentResult, ContentBlock, ToolEffect};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

use crate::boundary::{self, PASSES, STOPS};
use crate::effects::{self, EffectLog};
use crate::engine::{DurableEngine, run_with_signals};
use crate::scenario::Scenario;
use crate::tools;
use crate::trial::same_messages;

/// Prefix of the message with which a child process reports the result of the run.
const ENDED: &str = "ended ";

/// The first message of a child process.
const BEGINS: &str = "begins";

/// Time after which a process without messages counts as hung. A passing test never waits for so long.
const HANGING: Duration = Duration::from_secs(120);

/// Longest interval between two checks of a process.
const POLL: Duration = Duration::from_millis(20);

/// The scenario of a crash test, and the number of runs in which the test kills processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPlan {
    /// The scenario. Default: [`Scenario::crash`].
    pub scenario: Scenario,
    /// Maximum number of boundaries at which a process is killed, each in a separate run. A boundary is a call of
    /// [`boundary`](crate::boundary()). If the run has more boundaries, evenly spaced boundaries are selected. The
    /// environment variable `KILL_BOUNDARIES` overrides this field. Default: all.
    pub boundaries: usize,
    /// Number of runs with one to three kills at random moments. The environment variable `KILL_ROUNDS` overrides this
    /// field. Default: 10.
    pub random_rounds: usize,
}

impl Default for CrashPlan {
    fn default() -> Self {
        Self { scenario: Scenario::crash(), boundaries: usize::MAX, random_rounds: 10 }
    }
}

/// Numbers of rounds, killed processes and unknown outcomes in a crash test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashTally {
    /// Number of boundaries in an undisturbed run. A boundary is a call of [`boundary`](crate::boundary()), at which a
    /// test can kill the process.
    pub boundaries: usize,
    /// Number of rounds. In each round, a new run is executed and one or more of its processes are killed.
    pub rounds: usize,
    /// Number of killed processes.
    pub kills: usize,
    /// Number of tool calls that a kill interrupted and that have the result [`outcome_unknown`].
    pub unknown_outcomes: usize,
}

/// Checks runs whose process is killed while it runs the agent and waits for the result.
///
/// - `test` is the full name of the calling test, as the test runner prints it.
/// - `place` is called once. It returns the location of the runs, for example a directory, and a guard that keeps the
///   location until the end of the test.
/// - `open` is called in every process and for every round. It opens the engine at the location of the runs.
///
/// # Panics
///
/// If a check fails, or a child process does not start.
pub async fn check_killed_runs<E: DurableEngine, G>(
    test: &str,
    plan: CrashPlan,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> E,
) -> CrashTally {
    if let Some(task) = Task::of_this_process() {
        let scenario = task.scenario();
        let engine = open(task.place).await;
        child_process::report(BEGINS);
        let result = run_with_signals(&engine, &task.run_id, &scenario, &task.log).await;
        let result = result.map_err(|failure| failure.to_string());
        child_process::report(&format!("{ENDED}{}", json!(result)));
        std::process::exit(0);
    }
    let (place, _guard) = place().await;
    let run = async |round: &Round<'_>, kills: Vec<KillAt>| {
        let mut processes = Vec::new();
        for kill in kills {
            let process = round.watch(kill, Arc::default()).await;
            match &process.end {
                End::Killed { .. } => processes.push(process),
                End::Ended(result) => {
                    let result: Result<_, String> = round.case.ok(serde_json::from_str(result));
                    let result = round.case.ok(result);
                    processes.push(process);
                    return (result, processes);
                }
                End::Silent => round.case.fail("the process did not end the run"),
            }
        }
        let engine = open(round.task.place.clone()).await;
        (round.run(&engine).await, processes)
    };
    check(test, plan, &place, &open, run).await
}

/// Checks runs of an engine with a server whose worker is killed.
///
/// The worker is the process that hosts the agent, its model and its tools.
///
/// `test`, `plan` and `place` are as in [`check_killed_runs`]. `open` returns a client of the engine, which starts runs
/// and waits for them. `serve` is called only in child processes. It hosts the scenario with the log until its process
/// is killed.
///
/// # Panics
///
/// If a check fails, or a child process does not start.
pub async fn check_killed_workers<E: DurableEngine, G>(
    test: &str,
    plan: CrashPlan,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> E,
    serve: impl AsyncFn(String, Scenario, EffectLog) -> Infallible,
) -> CrashTally {
    if let Some(task) = Task::of_this_process() {
        child_process::report(BEGINS);
        serve(task.place.clone(), task.scenario(), task.log).await;
    }
    let (place, _guard) = place().await;
    let run = async |round: &Round<'_>, kills: Vec<KillAt>| {
        let engine = open(round.task.place.clone()).await;
        let has_ended = Arc::new(AtomicBool::new(false));
        // The last worker is not killed. It runs until the run has ended.
        let workers = async {
            let mut processes = Vec::new();
            for kill in kills.into_iter().chain([KillAt::Never]) {
                processes.push(round.watch(kill, has_ended.clone()).await);
                if has_ended.load(Ordering::SeqCst) {
                    break;
                }
            }
            processes
        };
        let run = async {
            let result = round.run(&engine).await;
            has_ended.store(true, Ordering::SeqCst);
            result
        };
        futures_util::future::join(run, workers).await
    };
    check(test, plan, &place, &open, run).await
}

/// Checks an undisturbed run, and then every round of a plan. A round is a new run whose processes are killed at the
/// given moments. `run` executes a round. It returns the result of the run, and how each process ended.
async fn check<E: DurableEngine>(
    test: &str,
    plan: CrashPlan,
    place: &str,
    open: impl AsyncFn(String) -> E,
    run: impl AsyncFn(&Round<'_>, Vec<KillAt>) -> (AgentResult, Vec<Process>),
) -> CrashTally {
    let rounds = Rounds::new(test, place, plan.scenario);
    let round = rounds.round("undisturbed", "");
    let (expected, processes) = run(&round, vec![KillAt::Never]).await;
    let model_calls = round.task.log.model_calls();
    effects::check(&round.case, &round.task.log, model_calls, 0);
    round.check_run_again(&open(place.to_owned()).await, &expected).await;
    let boundaries = processes.iter().map(|process| process.boundaries).sum();

    let mut tally = CrashTally { boundaries, ..CrashTally::default() };
    for (round, kills) in rounds.all(plan, boundaries) {
        let (result, mut processes) = run(&round, kills).await;
        processes.retain(|process| matches!(process.end, End::Killed { .. }));
        let places: Vec<_> = processes.iter().map(|process| &process.last_boundary).collect();
        let case = round.case.step(format_args!("killed at {places:?}"));
        let most = processes.len() * plan.scenario.parallel_agents();
        effects::check(&case, &round.task.log, model_calls, most);
        let (known, unknown) = with_known_outcomes(&result, &expected);
        case.holds(
            unknown == 0
                || plan.scenario.parallel_agents() > 1
                || processes.iter().any(Process::may_interrupt_a_call),
            "the outcome of a call is unknown that was recorded, or not begun",
        );
        case.holds(unknown <= processes.len(), "more outcomes are unknown than there were kills");
        same_messages(&case, &known.messages, &expected.messages);
        case.equal("the result", &known, &expected);
        tally.rounds += 1;
        tally.kills += processes.len();
        tally.unknown_outcomes += unknown;
        // A new client has no state of the earlier clients.
        round.check_run_again(&open(place.to_owned()).await, &result).await;
    }
    tally
}

/// Replaces each [`outcome_unknown`] tool result in `result` by the tool result in `expected`.
///
/// Also returns the number of calls with a replaced result. Calls of the same tool with equal arguments count once.
fn with_known_outcomes(result: &AgentResult, expected: &AgentResult) -> (AgentResult, usize) {
    let (mut known, mut unknown) = (result.clone(), BTreeSet::new());
    for (message, expected) in known.messages.iter_mut().zip(&expected.messages) {
        for (block, expected) in message.content.iter_mut().zip(&expected.content) {
            let ContentBlock::ToolResult { tool_use_id, content, is_error: true } = &*block else {
                continue;
            };
            let mut calls = result.messages.iter().flat_map(|message| message.tool_uses());
            let Some(call) = calls.find(|call| call.id == tool_use_id) else { continue };
            let is_at_most_once = tools::effect_of(call.name) == ToolEffect::AtMostOnce;
            if is_at_most_once && *content == outcome_unknown(call.name).content {
                *block = expected.clone();
                unknown.insert((call.name, call.input.to_string()));
            }
        }
    }
    (known, unknown.len())
}

/// Creates the rounds of one crash test. A round is a new run in which processes are killed.
struct Rounds<'t> {
    test: &'t str,
    place: &'t str,
    scenario: Scenario,
    /// Prefix of the ids of all runs of this test.
    prefix: String,
    logs: TempDir,
}

impl<'t> Rounds<'t> {
    #[expect(clippy::expect_used, reason = "for tests")]
    fn new(test: &'t str, place: &'t str, scenario: Scenario) -> Self {
        let logs = tempfile::tempdir().expect("a directory for logs");
        Self { test, place, scenario, prefix: format!("crash-{:016x}", unique()), logs }
    }

    /// Creates a round, which is a new run whose processes are killed. Panic messages contain `name` and `seed`.
    fn round(&self, name: &str, seed: &str) -> Round<'t> {
        let run_id = format!("{}-{name}", self.prefix);
        let log = EffectLog::new(self.logs.path().join(&run_id));
        let case =
            Case::new("durable engine", "crash", format_args!("{name} of {}{seed}", self.test));
        let scenario = self.scenario.name();
        let task = Task { stop: 0, scenario, run_id, log, place: self.place.to_owned() };
        Round { test: self.test, task, case }
    }

    /// Returns all rounds of a plan, each with the moments at which its successive processes are killed. `boundaries`
    /// is the number of boundaries in an undisturbed run.
    fn all(
        &self,
        plan: CrashPlan,
        boundaries: usize,
    ) -> impl Iterator<Item = (Round<'t>, Vec<KillAt>)> {
        let most = from_env("KILL_BOUNDARIES").map_or(plan.boundaries, |most| most as usize);
        let count = most.min(boundaries);
        let at_boundaries = (0..count).map(move |index| {
            // The selected boundaries are spread evenly from the first to the last.
            let last = boundaries.saturating_sub(1);
            let boundary = 1 + (index * last) / count.saturating_sub(1).max(1);
            let round = self.round(&format!("boundary-{boundary}"), "");
            (round, vec![KillAt::Boundary(boundary as u64)])
        });
        let seed = from_env("KILL_SEED").unwrap_or_else(unique);
        let mut random = Random::new(seed);
        let random_rounds = from_env("KILL_ROUNDS").unwrap_or(plan.random_rounds as u64);
        let at_random = (0..random_rounds).map(move |index| {
            let round = self.round(&format!("random-{index}"), &format!(", with KILL_SEED={seed}"));
            let kills = (0..=random.below(3)).map(|_| {
                // A power of two first, so that short delays are as frequent as long delays. Most runs are shorter than
                // the longest delay.
                let longest = 1 << random.below(18);
                KillAt::After(Duration::from_micros(random.below(longest)))
            });
            (round, kills.collect())
        });
        at_boundaries.chain(at_random)
    }
}

impl Drop for Rounds<'_> {
    /// Prints the newest [`EffectLog`] if a check failed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let logs = std::fs::read_dir(self.logs.path()).into_iter().flatten().flatten();
        let modified = |entry: &std::fs::DirEntry| entry.metadata()?.modified();
        let newest = logs.max_by_key(|entry| modified(entry).ok()).map(|entry| entry.path());
        let log = newest.and_then(|path| std::fs::read_to_string(path).ok());
        eprintln!("what the run did:\n{}", log.unwrap_or_default());
    }
}

/// A run of the scenario during which one or more processes are killed.
struct Round<'t> {
    test: &'t str,
    task: Task,
    case: Case,
}

impl Round<'_> {
    /// Starts a child process, and watches it on a separate thread. Returns when the process is killed or ends, or when
    /// the run is over.
    async fn watch(&self, kill: KillAt, is_over: Arc<AtomicBool>) -> Process {
        let stop = if let KillAt::Boundary(number) = kill { number } else { 0 };
        let task = json!(Task { stop, ..self.task.clone() });
        let child = ChildProcess::start(self.test, &task.to_string());
        let watch = tokio::task::spawn_blocking(move || Process::watch(child, kill, &is_over));
        self.case.ok(watch.await)
    }

    /// Runs the scenario to its end, in this process or in worker processes of the engine, and returns its result.
    async fn run(&self, engine: &impl DurableEngine) -> AgentResult {
        let scenario = self.task.scenario();
        let run = run_with_signals(engine, &self.task.run_id, &scenario, &self.task.log);
        self.case.ok(self.case.soon(run).await)
    }

    /// Checks that another call of [`DurableEngine::run`] for the ended run returns the same result, without a model or
    /// tool call.
    async fn check_run_again(&self, engine: &impl DurableEngine, result: &AgentResult) {
        let before = self.task.log.effects().len();
        let scenario = self.task.scenario();
        let run = engine.run(&self.task.run_id, &scenario, &self.task.log);
        let again = self.case.ok(self.case.soon(run).await);
        self.case.equal("the result of the run that has ended", &again, result);
        let effects = self.task.log.effects();
        let new = effects.iter().skip(before).find(|effect| effect.kind.is_effect());
        self.case.equal("what the run that has ended did", new, None);
    }
}

/// The task of a child process, which is passed as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    /// Number of the call of [`boundary`](crate::boundary()) at which the process waits to be killed. The first call
    /// has number 1. With 0 the process never waits.
    stop: u64,
    scenario: String,
    run_id: String,
    log: EffectLog,
    /// Location of the engine's runs.
    place: String,
}

impl Task {
    /// Returns the scenario of the task.
    #[expect(clippy::expect_used, reason = "for tests")]
    fn scenario(&self) -> Scenario {
        Scenario::named(&self.scenario).expect("a scenario")
    }

    /// Returns the task of this process. Returns `None` if this process is not a child process.
    #[expect(clippy::expect_used, reason = "for tests")]
    fn of_this_process() -> Option<Self> {
        let task: Self = serde_json::from_str(&child_process::task()?).expect("a task");
        boundary::stop_at(task.stop);
        Some(task)
    }
}

/// The moment at which a test kills a child process.
#[derive(Debug, Clone, Copy)]
enum KillAt {
    /// The process is killed at the call of [`boundary`](crate::boundary()) with this number. Numbers begin at 1.
    Boundary(u64),
    /// The kill happens when this delay has passed since the first message of the process.
    After(Duration),
    Never,
}

/// A child process that has ended or was killed.
struct Process {
    end: End,
    /// Number of boundaries that the process passed. A boundary is a point at which a test can kill it.
    boundaries: usize,
    /// Name of the last boundary that the process passed, or at which it stopped. A boundary is a call of
    /// [`boundary`](crate::boundary()).
    last_boundary: String,
}

/// The kind of a child process's end.
enum End {
    /// The process was killed. `is_exact` is set if the process was waiting in its last call of
    /// [`boundary`](crate::boundary()). If it is not set, the process was killed at some moment after this call.
    Killed { is_exact: bool },
    /// The process reported the result of the run, as JSON.
    Ended(String),
    /// The process exited without a result, sent no messages for too long, or is not needed any more.
    Silent,
}

impl Process {
    /// Watches a process, and kills it at the moment `kill`. Also kills the process when `is_over` becomes `true`,
    /// because the run has then ended.
    fn watch(mut child: ChildProcess, kill: KillAt, is_over: &AtomicBool) -> Self {
        let (mut boundaries, mut last_boundary) = (0, String::new());
        let mut heard = Instant::now();
        let mut deadline: Option<Instant> = None;
        let end = loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break End::Killed { is_exact: false };
            }
            // If the process has ended, its remaining messages are still read.
            let has_ended = child.has_ended();
            let longest = match has_ended {
                true => HANGING,
                false => left.unwrap_or(POLL).min(POLL),
            };
            let Some(report) = child.next_report(longest) else {
                if has_ended || heard.elapsed() > HANGING || is_over.load(Ordering::SeqCst) {
                    break End::Silent;
                }
                continue;
            };
            heard = Instant::now();
            if let Some(name) = report.strip_prefix(STOPS) {
                last_boundary = name.to_owned();
                break End::Killed { is_exact: true };
            } else if let Some(result) = report.strip_prefix(ENDED) {
                break End::Ended(result.to_owned());
            } else if let Some(name) = report.strip_prefix(PASSES) {
                boundaries += 1;
                last_boundary = name.to_owned();
            } else if let (BEGINS, KillAt::After(delay)) = (report.as_str(), kill) {
                deadline = Some(heard + delay);
            }
        };
        // Dropping the child kills it.
        drop(child);
        Self { end, boundaries, last_boundary }
    }

    /// Returns `true` if the kill may have interrupted a tool call.
    fn may_interrupt_a_call(&self) -> bool {
        let is_outside =
            ["engine: ", "model: "].iter().any(|prefix| self.last_boundary.starts_with(prefix));
        !(matches!(self.end, End::Killed { is_exact: true }) && is_outside)
    }
}
