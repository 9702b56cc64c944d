//! Tests of the crash tests, with correct and broken engines whose processes are killed.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use neuron_conformance_durable::crash::{self, CrashPlan};
use neuron_conformance_durable::{DurableEngine, EffectLog, RunFailure, Scenario};
use neuron_types::AgentResult;
use serde_json::Value;
use tempfile::TempDir;

use crate::reference::Reference;

async fn directory() -> (String, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (directory.path().to_str().unwrap().to_owned(), directory)
}

#[tokio::test(flavor = "multi_thread")]
async fn correct_engine_passes() {
    let tally = crash::check_killed_runs(
        "killed::correct_engine_passes",
        CrashPlan::default(),
        directory,
        async |place| Reference::new(place),
    )
    .await;
    println!("{tally:?}");
    assert!(tally.boundaries > 90, "{tally:?}");
    assert!(tally.rounds >= tally.boundaries && tally.kills >= tally.boundaries, "{tally:?}");
    assert!(tally.unknown_outcomes > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_runs_with_effect_keys_pay_once() {
    let tally = crash::check_killed_runs(
        "killed::killed_runs_with_effect_keys_pay_once",
        CrashPlan { scenario: Scenario::effect_keys(), ..CrashPlan::default() },
        directory,
        async |place| Reference::new(place),
    )
    .await;
    println!("{tally:?}");
    assert!(tally.boundaries > 20 && tally.unknown_outcomes > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the call with an idempotency key")]
async fn repeated_keyed_effects_are_detected() {
    crash::check_killed_runs(
        "killed::repeated_keyed_effects_are_detected",
        CrashPlan { scenario: Scenario::effect_keys(), random_rounds: 0, ..CrashPlan::default() },
        directory,
        async |place| Reference::broken(place, "ForgetsEffects"),
    )
    .await;
}

/// Generates tests in which the crash test must detect a broken engine. Each line of the input has three items:
/// - The name of the test.
/// - The mutation that breaks the engine.
/// - A substring of the panic message.
macro_rules! caught {
    ($($name:ident: $mutation:ident: $says:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[should_panic(expected = $says)]
        async fn $name() {
            let tally = crash::check_killed_runs(
                concat!("killed::", stringify!($name)),
                CrashPlan { random_rounds: 0, ..CrashPlan::default() },
                directory,
                async |place| Reference::broken(place, stringify!($mutation)),
            )
            .await;
            println!("{tally:?}");
        }
    )*};
}

caught! {
    repeated_at_most_once_calls_are_detected: RunsAgain: "began 2 times, and 1 may be";
    missing_intents_are_detected: WritesNoIntent: "began 2 times, and 1 may be";
    missing_repeats_of_idempotent_calls_are_detected: NeverRepeats: "message";
    changed_idempotency_keys_are_detected: NewKeys: "the idempotency key of";
    results_recorded_before_the_call_are_detected: RecordsBeforeItRuns: "message";
    clock_that_changes_after_a_crash_is_detected: LivingClock: "on replay";
    repeated_model_calls_are_detected: ForgetsAnswers: "what the run that has ended did";
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "message")]
async fn nested_agent_without_a_journal_is_detected() {
    crash::check_killed_runs(
        "killed::nested_agent_without_a_journal_is_detected",
        CrashPlan { scenario: Scenario::team(), random_rounds: 0, ..CrashPlan::default() },
        directory,
        async |place| Reference::new(place),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the process did not end the run")]
async fn unknown_test_name_is_detected() {
    crash::check_killed_runs(
        "killed::no_test_of_this_name",
        CrashPlan::default(),
        directory,
        async |place| Reference::new(place),
    )
    .await;
}

/// A client of runs in another process. Requests and results are files in a directory.
struct Client(PathBuf);

impl DurableEngine for Client {
    async fn run(
        &self,
        run_id: &str,
        _: &Scenario,
        _: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        std::fs::write(self.0.join(format!("{run_id}.wanted")), "").unwrap();
        loop {
            match std::fs::read(self.0.join(format!("{run_id}.ended"))) {
                Ok(result) => return Ok(serde_json::from_slice(&result).unwrap()),
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        Reference::new(&self.0).signal(run_id, name, value).await
    }
}

/// Acts as the worker process that the crash test kills. Executes each run that a [`Client`] requests with a file in
/// the directory `place`. Never returns.
async fn work(
    place: String,
    scenario: Scenario,
    log: EffectLog,
    mutation: &'static str,
) -> Infallible {
    let (place, engine) = (PathBuf::from(&place), Reference::broken(&place, mutation));
    loop {
        for entry in std::fs::read_dir(&place).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(run_id) = name.strip_suffix(".wanted") else { continue };
            let ended = place.join(format!("{run_id}.ended"));
            if !ended.exists() {
                let result = engine.run(run_id, &scenario, &log).await.unwrap();
                let part = place.join(format!("{run_id}.part"));
                std::fs::write(&part, serde_json::to_vec(&result).unwrap()).unwrap();
                std::fs::rename(part, ended).unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_correct_engine_pass() {
    let tally = crash::check_killed_workers(
        "killed::workers_of_a_correct_engine_pass",
        CrashPlan { boundaries: 40, random_rounds: 5, ..CrashPlan::default() },
        directory,
        async |place| Client(place.into()),
        async |place, scenario, log| work(place, scenario, log, "").await,
    )
    .await;
    println!("{tally:?}");
    assert!(tally.boundaries > 90 && tally.rounds >= 40 && tally.kills >= 40, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "began 2 times, and 1 may be")]
async fn worker_with_repeated_at_most_once_calls_is_detected() {
    crash::check_killed_workers(
        "killed::worker_with_repeated_at_most_once_calls_is_detected",
        CrashPlan { random_rounds: 0, ..CrashPlan::default() },
        directory,
        async |place| Client(place.into()),
        async |place, scenario, log| work(place, scenario, log, "RunsAgain").await,
    )
    .await;
}
