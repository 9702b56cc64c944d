//! Tests of the operations on runs, and of the single holder of a run.

use std::time::Duration;

use neuron_types::{
    ActivityOptions, AgentResult, DurableContext, DurableError, LoopError, StopReason, ToolError,
};
use serde_json::{Value, json};

use crate::test_support::{
    answering, invocation, look, no_tools, opened, place, request, run, silent,
};
use crate::{
    DurableOptions, JournalError, RunError, RunStatus, SqliteDurableContext, SqliteError,
    SqliteRuns, StepKind,
};

fn ended(response: &str) -> AgentResult {
    AgentResult {
        response: response.into(),
        messages: Vec::new(),
        usage: neuron_types::TokenUsage { input_tokens: 12, ..Default::default() },
        turns: 1,
        stop_reason: StopReason::EndTurn,
        limit_reached: None,
    }
}

async fn kinds(runs: &SqliteRuns) -> Vec<(String, RunStatus, usize)> {
    let list = runs.list().await.unwrap();
    list.into_iter().map(|run| (run.id, run.status, run.steps.unwrap())).collect()
}

#[tokio::test]
async fn runs_are_listed_and_described() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    assert!(runs.list().await.unwrap().is_empty());
    let (one, _) = answering(&runs, "one", &["x"]).await;
    one.execute_llm_call(request("a"), ActivityOptions::default()).await.unwrap();
    one.run_ended(Ok(&ended("x"))).await;
    let two = opened(&runs, "two").await;
    two.wait_for_signal::<Value>("go", Duration::ZERO).await.unwrap();
    let three = opened(&runs, "three").await;
    three.run_ended(Err(&LoopError::MaxTurns(3))).await;
    let four = opened(&runs, "four").await;
    for error in [LoopError::Cancelled, LoopError::Durable(neuron_types::DurableError::Cancelled)] {
        four.run_ended(Err(&error)).await;
    }

    let status = |id: &str, status, steps| (id.to_owned(), status, steps);
    let expected = [
        status("one", RunStatus::Done, 1),
        status("two", RunStatus::Running, 1),
        status("three", RunStatus::Failed, 0),
        status("four", RunStatus::Running, 0),
    ];
    assert_eq!(kinds(&runs).await, expected);
    assert_eq!(runs.unfinished().await.unwrap(), ["two", "four"]);
    assert_eq!(runs.list().await.unwrap()[0].usage.as_ref().unwrap().input_tokens, 12);

    let details = runs.inspect("one").await.unwrap();
    assert!(details.is_held);
    let step = &details.steps[0];
    assert_eq!((step.key.as_str(), step.kind, step.attempts), ("model/0", StepKind::Model, 1));
    assert!(step.ended_at.unwrap() >= step.begun_at && step.bytes > 50);
    assert_eq!(details.outcome.unwrap().result.unwrap().response, "x");
    let outcome = runs.inspect("three").await.unwrap().outcome.unwrap();
    assert_eq!(outcome.error.unwrap().kind, "MaxTurns");
    drop((one, two, three, four));
    assert!(!runs.inspect("one").await.unwrap().is_held);
    let error = runs.inspect("five").await.unwrap_err();
    assert!(matches!(error, JournalError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn end_is_stored_once_and_removed_when_the_run_continues() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let options = ActivityOptions::default;
    {
        let (durable, _) = answering(&runs, "r", &["x"]).await;
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        durable.run_ended(Ok(&ended("x"))).await;
    }
    let first = runs.inspect("r").await.unwrap();
    let (durable, _) = answering(&runs, "r", &["y"]).await;
    assert!(durable.is_replaying());
    // An end before the end of the journal is the end of an earlier loop of the same agent.
    durable.run_ended(Err(&LoopError::MaxTurns(1))).await;
    durable.execute_llm_call(request("a"), options()).await.unwrap();
    assert!(durable.is_replaying(), "all of it was there");
    durable.run_ended(Ok(&ended("x"))).await;
    let again = runs.inspect("r").await.unwrap();
    assert_eq!((&first.outcome, &first.summary), (&again.outcome, &again.summary));

    durable.execute_llm_call(request("b"), options()).await.unwrap();
    assert!(!durable.is_replaying());
    let details = runs.inspect("r").await.unwrap();
    assert_eq!((details.summary.status, details.outcome), (RunStatus::Running, None));
    durable.run_ended(Ok(&ended("y"))).await;
    let outcome = runs.inspect("r").await.unwrap().outcome.unwrap();
    assert_eq!(outcome.result.unwrap().response, "y");
}

/// Regression test. If a run ends again without a new step, its new outcome must replace the stored outcome. For
/// example, a run fails because of a hook, the hook is removed, and the run is driven again.
#[tokio::test]
async fn another_end_without_a_new_step_replaces_the_outcome() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let failed = LoopError::HookTerminated("not that".into());
    let ends: [Result<AgentResult, LoopError>; 4] =
        [Err(failed), Err(LoopError::MaxTurns(1)), Ok(ended("x")), Ok(ended("y"))];
    for end in ends {
        let (durable, _) = answering(&runs, "r", &["x"]).await;
        durable.execute_llm_call(request("a"), ActivityOptions::default()).await.unwrap();
        durable.run_ended(end.as_ref()).await;
        let outcome = runs.inspect("r").await.unwrap().outcome.unwrap();
        // The conversation is in the journal, and not in the outcome.
        let expected = end.map(|end| AgentResult { messages: Vec::new(), ..end });
        assert_eq!(outcome.into_result(), expected.map_err(|error| RunError::from(&error)));
    }
    assert_eq!(runs.inspect("r").await.unwrap().summary.status, RunStatus::Done);
}

#[tokio::test]
async fn second_context_cannot_open_a_held_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let durable = opened(&runs, "r").await;
    let clone = durable.clone();
    for database in [&runs, &runs.clone(), &other] {
        let error = database.run("r").open(silent(), no_tools()).await.unwrap_err();
        assert!(matches!(error, JournalError::Held { .. }), "{error:?}");
        let error = database.delete("r").await.unwrap_err();
        assert!(matches!(error, JournalError::Held { .. }), "{error:?}");
        assert!(database.inspect("r").await.unwrap().is_held);
    }
    // Other runs are free.
    drop(opened(&other, "s").await);
    drop(durable);
    let error = other.run("r").open(silent(), no_tools()).await.unwrap_err();
    assert!(matches!(error, JournalError::Held { .. }), "a clone has it: {error:?}");
    drop(clone);
    drop(opened(&other, "r").await);
    drop(opened(&runs, "r").await);
    assert_eq!(look(&path, "SELECT count(*) FROM runs"), 2);

    let memory = SqliteRuns::open(":memory:").await.unwrap();
    let durable = opened(&memory, "r").await;
    let error = memory.run("r").open(silent(), no_tools()).await.unwrap_err();
    assert!(matches!(error, JournalError::Held { .. }), "{error:?}");
    assert!(memory.inspect("r").await.unwrap().is_held);
    drop(durable);
    drop(opened(&memory, "r").await);
}

#[cfg(unix)]
#[tokio::test]
async fn deleted_lock_folder_does_not_allow_two_writers() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let (stale, provider) = answering(&runs, "r", &["one", "lost"]).await;
    let options = ActivityOptions::default;
    stale.execute_llm_call(request("a"), options()).await.unwrap();
    std::fs::remove_dir_all(path.with_extension("db.locks")).unwrap();
    let (fresh, _) = answering(&other, "r", &["two"]).await;
    let error = stale.execute_llm_call(request("b"), options()).await.unwrap_err().to_string();
    assert!(error.contains("was opened by another context since"), "{error}");
    assert_eq!(provider.calls(), 1, "the model was called for a run that is not held any more");
    assert_eq!(look(&path, "SELECT count(*) FROM steps"), 1);
    fresh.execute_llm_call(request("a"), options()).await.unwrap();
    fresh.execute_llm_call(request("b"), options()).await.unwrap();
    // The stale context stores no end and receives no signal.
    stale.run_ended(Ok(&ended("x"))).await;
    runs.signal("r", "go", 1).await.unwrap();
    stale.wait_for_signal::<Value>("go", Duration::ZERO).await.unwrap_err();
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 1);
    assert_eq!(runs.inspect("r").await.unwrap().summary.status, RunStatus::Running);
}

#[tokio::test]
async fn delete_removes_the_run_with_its_steps_and_signals() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let error = runs.delete("r").await.unwrap_err();
    assert!(matches!(error, JournalError::NotFound { .. }), "{error:?}");
    {
        let (durable, _) = answering(&runs, "r", &["x".repeat(500_000).as_str()]).await;
        durable.execute_llm_call(request("a"), ActivityOptions::default()).await.unwrap();
        runs.signal("r", "go", "y".repeat(1_000_000)).await.unwrap();
    }
    let locks = path.with_extension("db.locks");
    let files = || std::fs::read_dir(&locks).unwrap().count();
    assert_eq!(files(), 1);
    // A damaged run can be deleted too.
    run(&path, "UPDATE runs SET status = 'odd'");
    assert!(runs.inspect("r").await.is_err());
    runs.delete("r").await.unwrap();
    for table in ["runs", "steps", "signals"] {
        assert_eq!(look(&path, &format!("SELECT count(*) FROM {table}")), 0);
    }
    assert_eq!(files(), 0);
    runs.database().checkpoint().await.unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 100_000, "the space is not given back");
    // The id can be used again, for a new run without steps.
    let durable = opened(&runs, "r").await;
    assert!(!durable.is_replaying());
}

#[cfg(unix)]
#[tokio::test]
async fn step_of_a_deleted_run_fails_with_deleted() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let (stale, _) = answering(&runs, "r", &["x"]).await;
    std::fs::remove_dir_all(path.with_extension("db.locks")).unwrap();
    SqliteRuns::open(&path).await.unwrap().delete("r").await.unwrap();
    let options = ActivityOptions::default();
    let error = stale.execute_llm_call(request("a"), options).await.unwrap_err().to_string();
    assert_eq!(error, "the run \"r\" was deleted");
    assert_eq!(look(&path, "SELECT count(*) FROM steps"), 0);
}

#[tokio::test]
async fn prune_deletes_only_ended_runs_without_a_holder() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    for id in ["done", "failed", "running", "held"] {
        let durable = opened(&runs, id).await;
        match id {
            "running" => {}
            "failed" => durable.run_ended(Err(&LoopError::MaxTurns(1))).await,
            _ => durable.run_ended(Ok(&ended("x"))).await,
        }
    }
    let held = opened(&runs, "held").await;
    assert_eq!(runs.prune(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(runs.prune(Duration::MAX).await.unwrap(), 0);
    let other = SqliteRuns::open(&path).await.unwrap();
    assert_eq!(other.prune(Duration::ZERO).await.unwrap(), 2);
    let ids = |list: Vec<crate::RunSummary>| list.into_iter().map(|run| run.id);
    assert!(ids(runs.list().await.unwrap()).eq(["running", "held"]));
    drop(held);
    assert_eq!(runs.prune(Duration::ZERO).await.unwrap(), 1);
}

#[tokio::test]
async fn run_ids_must_be_file_names_on_every_system() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    for id in ["", "../x", "a/b", ".", "con", &"x".repeat(201)] {
        let invalid = |error: JournalError| matches!(error, JournalError::InvalidId { .. });
        assert!(invalid(runs.run(id).open(silent(), no_tools()).await.unwrap_err()), "{id}");
        assert!(invalid(runs.delete(id).await.unwrap_err()));
        assert!(invalid(runs.signal(id, "x", 1).await.unwrap_err()));
        assert!(invalid(runs.inspect(id).await.unwrap_err()));
    }
    assert_eq!(look(&path, "SELECT count(*) FROM runs"), 0);
    for id in ["対話 42", "user@example.org", "A", "a"] {
        drop(opened(&runs, id).await);
    }
    assert_eq!(runs.list().await.unwrap().len(), 4);
}

#[tokio::test]
async fn input_is_stored_only_with_a_new_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let open = async |input: Value| runs.run("r").input(&input).open(silent(), no_tools()).await;
    drop(open(json!({"customer": 7})).await.unwrap());
    drop(open(json!("another")).await.unwrap());
    assert_eq!(runs.input::<Value>("r").await.unwrap(), Some(json!({"customer": 7})));
    let error = runs.input::<String>("r").await.unwrap_err();
    assert!(matches!(error, JournalError::NotJson { .. }), "{error:?}");
    drop(opened(&runs, "s").await);
    assert_eq!(runs.input::<Value>("s").await.unwrap(), None);
    runs.input::<Value>("t").await.unwrap_err();
}

#[tokio::test]
async fn retry_repeats_the_failed_last_step() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let options = ActivityOptions::default;
    let fail = LoopError::MaxTurns(1);
    {
        let durable = opened(&runs, "r").await;
        durable.execute_llm_call(request("a"), options()).await.unwrap_err();
        let error = runs.retry("r").await.unwrap_err();
        assert!(matches!(error, JournalError::Held { .. }), "{error:?}");
    }
    let error = runs.retry("r").await.unwrap_err();
    assert!(matches!(error, JournalError::NotFailed { .. }), "{error:?}");
    {
        // The error is stored, so a replay returns it.
        let (durable, provider) = answering(&runs, "r", &["fine"]).await;
        durable.execute_llm_call(request("a"), options()).await.unwrap_err();
        assert_eq!(provider.calls(), 0);
        durable.run_ended(Err(&fail)).await;
    }
    runs.retry("r").await.unwrap();
    assert_eq!(runs.inspect("r").await.unwrap().summary.status, RunStatus::Running);
    let (durable, _) = answering(&runs, "r", &["fine"]).await;
    let answer = durable.execute_llm_call(request("a"), options()).await.unwrap();
    assert_eq!(answer.message.text(), "fine");
}

/// Regression test. If a tool call failed and a limit then ended the run, `retry` must keep the failure of the call.
/// The call must not run again.
///
/// If the failure of the call ended the run, `retry` must remove the failure.
#[tokio::test]
async fn retry_keeps_the_result_of_a_call_that_did_not_end_the_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    for (ended_with, keeps) in [
        (LoopError::MaxTurns(1), true),
        (LoopError::HookTerminated("enough".into()), true),
        (ToolError::NotFound("missing".into()).into(), false),
    ] {
        let durable = opened(&runs, "r").await;
        let batch = vec![invocation("missing", json!({}))];
        let ran = durable.execute_tools(batch, ActivityOptions::default()).await;
        assert!(matches!(ran[..], [Err(DurableError::Tool(ToolError::NotFound(_)))]), "{ran:?}");
        durable.run_ended(Err(&ended_with)).await;
        drop(durable);
        runs.retry("r").await.unwrap();
        let steps = runs.inspect("r").await.unwrap().steps;
        assert_eq!(steps[0].ended_at.is_some(), keeps, "{ended_with}");
        runs.delete("r").await.unwrap();
    }
}

#[tokio::test]
async fn file_of_another_kind_is_refused_and_left_unchanged() {
    let (_folder, path) = place();
    let open = async || SqliteDurableContext::open(&path, "r", silent(), no_tools()).await;
    for bytes in [&b"no database, but a text that is long enough"[..], &[0; 4096]] {
        std::fs::write(&path, bytes).unwrap();
        let error = open().await.unwrap_err();
        let is_it = matches!(error, JournalError::Database(SqliteError::NotADatabase { .. }));
        assert!(is_it, "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    std::fs::remove_file(&path).unwrap();
    drop(open().await.unwrap());
    for (change, says) in [
        ("PRAGMA user_version = 4", "has schema version 4, and this version reads up to 3"),
        (
            "PRAGMA application_id = 77",
            "is a SQLite database of another application, not a database of neuron runs",
        ),
    ] {
        run(&path, change);
        let before = std::fs::read(&path).unwrap();
        let error = open().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    // A file is where the folder of the database should be.
    let error = SqliteRuns::open(path.join("runs.db")).await.unwrap_err();
    assert!(matches!(error, JournalError::Database(SqliteError::Io { .. })), "{error:?}");
}

#[tokio::test]
async fn failed_lock_is_reported_and_creates_no_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    std::fs::write(path.with_extension("db.locks"), "a file").unwrap();
    let error = runs.run("r").open(silent(), no_tools()).await.unwrap_err();
    assert!(matches!(error, JournalError::Lock { .. }), "{error:?}");
    assert!(runs.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn damaged_run_is_listed_with_the_other_runs() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    for id in ["row", "step", "outcome", "text", "well"] {
        let (run, _) = answering(&runs, id, &["x"]).await;
        run.execute_llm_call(request("a"), ActivityOptions::default()).await.unwrap();
        run.run_ended(Ok(&ended("x"))).await;
    }
    run(&path, "UPDATE runs SET epoch = 7 WHERE id = 'row'");
    run(
        &path,
        "UPDATE steps SET record = '{' WHERE run = (SELECT key FROM runs WHERE id = 'step')",
    );
    run(&path, "UPDATE runs SET outcome = '{' WHERE id = 'outcome'");
    run(&path, "UPDATE runs SET status = CAST(x'ff' AS TEXT) WHERE id = 'text'");
    let list = runs.list().await.unwrap();
    let damage = |id: &str| list.iter().find(|run| run.id == id).unwrap().reason.clone();
    for (id, words) in [
        ("row", "its row is not as written"),
        ("step", "its step 0 is not as written"),
        ("outcome", "its row is not as written"),
        ("text", "its row: "),
    ] {
        let damage = damage(id).unwrap();
        assert!(damage.contains(words), "{id}: {damage}");
        let error = runs.run(id).open(silent(), no_tools()).await.unwrap_err().to_string();
        assert!(error.contains(words), "{id}: {error}");
    }
    assert_eq!((damage("well"), runs.unfinished().await.unwrap().len()), (None, 0));
    assert_eq!(
        runs.prune(Duration::ZERO).await.unwrap(),
        2,
        "`well`, and `step`, whose row is well"
    );
    for id in ["row", "outcome", "text"] {
        runs.delete(id).await.unwrap();
    }
    assert!(runs.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn value_longer_than_the_record_limit_is_an_error_until_the_limit_is_raised() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let value = json!("x".repeat(200));
    let open = async |limit| {
        let builder = runs.run("r").options(DurableOptions::new().record_limit(limit));
        builder.open(silent(), no_tools()).await.unwrap()
    };
    let context = open(100).await;
    let error = context.record("quote", value.clone()).await.unwrap_err().to_string();
    assert!(error.contains("the value `quote` takes 2"), "{error}");
    assert!(error.contains("may have 100") && error.contains("`record_limit`"), "{error}");
    assert_eq!(runs.inspect("r").await.unwrap().steps, []);
    drop(context);
    assert_eq!(open(1000).await.record("quote", value.clone()).await.unwrap(), value);
    // A stored value is returned even with a lower limit.
    assert_eq!(open(100).await.record("quote", json!(1)).await.unwrap(), value);
}

/// The folder of the locks must not be more accessible than the database.
#[cfg(unix)]
#[tokio::test]
async fn new_database_and_its_locks_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let context = opened(&runs, "r").await;
    let locks = folder.path().join("runs.db.locks");
    let lock = std::fs::read_dir(&locks).unwrap().next().unwrap().unwrap().path();
    for (path, expected) in [(&path, 0o600), (&locks, 0o700), (&lock, 0o600)] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{}", path.display());
    }
    drop(context);
}

#[tokio::test]
async fn prune_creates_no_lock_files() {
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    opened(&runs, "r").await.run_ended(Err(&LoopError::MaxTurns(3))).await;
    let locks = folder.path().join("runs.db.locks");
    std::fs::remove_dir_all(&locks).unwrap();
    assert_eq!(runs.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(!locks.exists());

    opened(&runs, "r").await.run_ended(Err(&LoopError::MaxTurns(3))).await;
    assert_eq!(std::fs::read_dir(&locks).unwrap().count(), 1);
    assert_eq!(runs.prune(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(std::fs::read_dir(&locks).unwrap().count(), 0);
}
