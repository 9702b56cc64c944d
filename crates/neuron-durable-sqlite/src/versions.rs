//! Tests with a database of each table version that users may have. The databases are read, replayed and written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, ContentBlock, DurableContext, Message, ProviderError, Role,
    RunSnapshot, Start, ToolEffect, ToolInvocation,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::test_support::{Echo, forget, invocation, look, place};
use crate::{DurableOptions, JournalError, RunStatus, SqliteDurableContext, SqliteRuns};

/// A database with tables of version 3. It contains a run with the steps of [`perform`], whose last call has not ended.
/// It also contains a queued signal, a run that has ended, and a run that is pinned to a version of its agent and has
/// continued as new.
const VERSION_3: &[u8] = include_bytes!("../tests/fixtures/version-3.db");

/// Performs one step of each kind, and returns the results as texts.
async fn perform(durable: &SqliteDurableContext<ScriptedProvider>) -> Vec<String> {
    let options = ActivityOptions::default;
    let mut gave = Vec::new();
    let mut note = |what: &dyn std::fmt::Debug| gave.push(format!("{what:?}"));
    note(&durable.start("What is 2 + 2?").await.unwrap());
    let call = json!({"z": 1, "a": [null, 0.1, "é\u{0}"]});
    let asked = Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: "c".into(),
            name: "look".into(),
            input: call.clone(),
        }],
    };
    let request = |messages: Vec<Message>| CompletionRequest {
        model: "model-1".into(),
        messages,
        max_tokens: Some(100),
        temperature: Some(0.5),
        ..Default::default()
    };
    let question = Message::user("What is 2 + 2?");
    note(&durable.execute_llm_call(request(vec![question.clone()]), options()).await.unwrap());
    let failed = durable.execute_llm_call(request(vec![question, asked]), options()).await;
    note(&failed.unwrap_err().to_string());
    let batch = vec![
        invocation("look", call),
        invocation("missing", json!({})),
        payment(),
        invocation("put", json!([1])).with_effect(ToolEffect::Idempotent),
    ];
    for ran in durable.execute_tools(batch, options()).await {
        note(&ran.map_err(|error| error.to_string()));
    }
    for _ in 0..2 {
        note(&durable.wait_for_signal::<Value>("go", Duration::ZERO).await.unwrap());
    }
    durable.sleep(Duration::ZERO).await;
    gave
}

/// Returns a call whose effect happens once in the run.
fn payment() -> ToolInvocation {
    let mut payment = invocation("pay", json!(17)).with_effect(ToolEffect::AtMostOnce);
    payment.effect_key = Some("invoice 17".into());
    payment
}

fn model() -> Arc<ScriptedProvider> {
    let error = ProviderError::RateLimit { retry_after: Some(Duration::from_secs(7)) };
    Arc::new(ScriptedProvider::new([Reply::text("It is 4."), Reply::error(error)]))
}

fn tools(ran: &[Echo]) -> Arc<ToolRegistry> {
    let mut registry = ToolRegistry::new();
    for tool in ran {
        registry.register_dyn(Arc::new(tool.clone()));
    }
    Arc::new(registry)
}

fn echoes() -> [Echo; 3] {
    [
        Echo::new("look", ToolEffect::Pure),
        Echo::new("pay", ToolEffect::AtMostOnce),
        Echo::new("put", ToolEffect::Idempotent),
    ]
}

/// Writes a database with the contents of [`VERSION_3`]. Returns the results of its steps as texts.
async fn write(path: &Path) -> Vec<String> {
    let runs = SqliteRuns::open(path).await.unwrap();
    let open = runs.run("r").input(&json!({"customer": 7}));
    let durable = open.open(model(), tools(&echoes())).await.unwrap();
    for signal in [json!({"sum": 0.1}), Value::Null, json!("late")] {
        runs.signal("r", "go", signal).await.unwrap();
    }
    let gave = perform(&durable).await;
    drop(durable);
    let ended = runs.run("ended").open(model(), tools(&[])).await.unwrap();
    ended.run_ended(Err(&neuron_types::LoopError::MaxTurns(3))).await;
    let pinned = runs.run("pinned").options(DurableOptions::new().agent_version("2"));
    let pinned = pinned.open(model(), tools(&[])).await.unwrap();
    pinned.start("Count.").await.unwrap();
    let state = RunSnapshot::new("pinned", vec![Message::user("Count on.")]);
    pinned.continue_as_new(serde_json::to_value(state).unwrap()).await.unwrap_err();
    drop((ended, pinned, runs));
    forget(path, &[5]);
    gave
}

/// Returns the columns of all steps as JSON, without the times and ids that differ between test runs.
fn rows(path: &Path) -> Vec<String> {
    let sql = "SELECT json_array(position, key, name, digest, effect, idempotency_key, attempt,
                   deadline - begun_at, pending, json_remove(record, '$.at', '$.ok.id'))
               FROM steps ORDER BY run, position";
    texts(path, sql)
}

/// Returns the columns of all tables and the SQL of all indexes.
fn schema(path: &Path) -> Vec<String> {
    let sql = "SELECT s.name || '.' || c.name || ' ' || c.type || ' ' || c.pk
               FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table'
               UNION ALL
               SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL
               ORDER BY 1";
    texts(path, sql)
}

fn texts(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn run_of_table_version_3_is_replayed_and_continues() {
    let (_folder, path) = place();
    let (_other_folder, fresh) = place();
    let expected = write(&fresh).await;
    std::fs::write(&path, VERSION_3).unwrap();

    let runs = SqliteRuns::open(&path).await.unwrap();
    assert_eq!(runs.input::<Value>("r").await.unwrap(), Some(json!({"customer": 7})));
    let status = runs.inspect("ended").await.unwrap().summary.status;
    assert_eq!((status, runs.unfinished().await.unwrap().len()), (RunStatus::Failed, 2));
    let model = Arc::new(ScriptedProvider::new(["next"]));
    let echoes = echoes();
    let durable = runs.run("r").open(model.clone(), tools(&echoes)).await.unwrap();
    assert_eq!(perform(&durable).await, expected);
    assert_eq!(model.calls(), 0);
    assert_eq!(echoes.each_ref().map(Echo::ran), [0, 0, 1], "only what was forgotten runs again");
    let next = durable.execute_llm_call(CompletionRequest::default(), Default::default()).await;
    assert_eq!(next.unwrap().message.text(), "next");
    let paid = durable.execute_tools(vec![payment()], Default::default()).await;
    assert!(paid[0].is_ok(), "{paid:?}");
    assert_eq!(echoes[1].ran(), 0, "the effect of an earlier call is not repeated");
    let late = durable.wait_for_signal::<String>("go", Duration::ZERO).await.unwrap();
    assert_eq!(late.as_deref(), Some("late"));
    let start = Start::from("What is 2 + 2?");
    assert_eq!(durable.start("another").await.unwrap(), start);
    assert_eq!(look(&path, "PRAGMA user_version"), 3);
}

#[tokio::test]
async fn continued_run_of_table_version_3_keeps_its_pin_and_its_first_start() {
    let (_folder, path) = place();
    std::fs::write(&path, VERSION_3).unwrap();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let submitted =
        runs.run("pinned").options(DurableOptions::new().agent_version("2")).submit("Count.").await;
    assert!(!submitted.unwrap(), "the run exists already");
    let other = runs
        .run("pinned")
        .options(DurableOptions::new().agent_version("2"))
        .submit("Count again.")
        .await;
    assert!(other.is_err(), "{other:?}");
    let other = runs
        .run("pinned")
        .options(DurableOptions::new().agent_version("3"))
        .open(model(), tools(&[]))
        .await;
    assert!(matches!(other, Err(JournalError::OtherVersion { .. })), "{other:?}");
    let pinned = runs
        .run("pinned")
        .options(DurableOptions::new().agent_version("2"))
        .open(model(), tools(&[]))
        .await
        .unwrap();
    let start = pinned.start("Count.").await.unwrap();
    let Start::Snapshot(snapshot) = start else { panic!("{start:?}") };
    assert_eq!(snapshot.messages, [Message::user("Count on.")]);
}

#[tokio::test]
async fn same_rows_are_written_as_in_table_version_3() {
    let (_folder, path) = place();
    let (_other_folder, fresh) = place();
    std::fs::write(&path, VERSION_3).unwrap();
    write(&fresh).await;
    assert_eq!(schema(&fresh), schema(&path));
    assert_eq!(rows(&fresh), rows(&path));
    let keys: Vec<String> = rows(&fresh)
        .iter()
        .map(|row| serde_json::from_str::<Vec<Value>>(row).unwrap().remove(1))
        .map(|key| key.as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "model/0",
        "model/1",
        "tools/0/0",
        "tools/0/1",
        "tools/0/2",
        "tools/0/3",
        "signal/0",
        "signal/1",
        "sleep/0",
    ];
    assert_eq!(keys, expected);
}
