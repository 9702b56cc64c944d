//! Tests with databases of every released table version. The databases are read, replayed and written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, ContentBlock, DurableContext, Message, ProviderError, Role,
    Start, ToolEffect,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::test_support::{Echo, forget, invocation, look, place};
use crate::{RunStatus, SqliteDurableContext, SqliteRuns};

/// A database with tables of version 1, which the first release with a table version wrote. It contains a run with the
/// steps of [`perform`], whose last call has not ended. It also contains a queued signal and a second run, which has
/// ended.
const VERSION_1: &[u8] = include_bytes!("../tests/fixtures/version-1.db");

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

fn echoes() -> [Echo; 2] {
    [Echo::new("look", ToolEffect::Pure), Echo::new("put", ToolEffect::Idempotent)]
}

/// Writes a database with the contents of [`VERSION_1`]. Returns the results of its steps as texts.
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
    drop((ended, runs));
    forget(path, &[4]);
    gave
}

/// Returns the columns of all steps as JSON, without the times and ids that differ between test runs.
fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql =
        "SELECT json_array(position, key, name, iif(key LIKE 'model/%', 'asked', digest), effect,
                   idempotency_key, attempt, deadline - begun_at, pending,
                   json_remove(record, '$.at', '$.ok.id', '$.asked'))
               FROM steps ORDER BY run, position";
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Returns the SQL of the tables and indexes, without the table that counts commits. Version 1 does not have this
/// table.
fn schema(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT sql FROM sqlite_schema
               WHERE sql NOT NULL AND name != 'neuron_commits' ORDER BY name";
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn run_of_table_version_1_is_replayed_and_continues() {
    let (_folder, path) = place();
    let (_other_folder, fresh) = place();
    let expected = write(&fresh).await;
    std::fs::write(&path, VERSION_1).unwrap();

    let runs = SqliteRuns::open(&path).await.unwrap();
    assert_eq!(runs.input::<Value>("r").await.unwrap(), Some(json!({"customer": 7})));
    let status = runs.inspect("ended").await.unwrap().summary.status;
    assert_eq!((status, runs.unfinished().await.unwrap()), (RunStatus::Failed, vec!["r".into()]));
    let model = Arc::new(ScriptedProvider::new(["next"]));
    let echoes = echoes();
    let durable = runs.run("r").open(model.clone(), tools(&echoes)).await.unwrap();
    assert_eq!(perform(&durable).await, expected);
    assert_eq!(model.calls(), 0);
    assert_eq!(echoes.each_ref().map(Echo::ran), [0, 1], "only what was forgotten runs again");
    let next = durable.execute_llm_call(CompletionRequest::default(), Default::default()).await;
    assert_eq!(next.unwrap().message.text(), "next");
    let late = durable.wait_for_signal::<String>("go", Duration::ZERO).await.unwrap();
    assert_eq!(late.as_deref(), Some("late"));
    let start = Start::from("What is 2 + 2?");
    assert_eq!(durable.start("another").await.unwrap(), start);
    assert_eq!(look(&path, "PRAGMA user_version"), 3);
}

#[tokio::test]
async fn release_writes_the_same_rows_as_table_version_1() {
    let (_folder, path) = place();
    let (_other_folder, fresh) = place();
    std::fs::write(&path, VERSION_1).unwrap();
    write(&fresh).await;
    // Opening the database migrates its tables.
    drop(SqliteRuns::open(&path).await.unwrap());
    assert_eq!(schema(&fresh), schema(&path));
    assert_eq!(rows(&fresh), rows(&path));
    // Version 1 of the records had a digest of the request instead of the request.
    let asked = "SELECT count(*) FROM steps
                 WHERE key LIKE 'model/%' AND digest IS NULL AND record -> '$.asked' IS NOT NULL";
    assert_eq!(look(&fresh, asked), 2);
    assert_eq!(look(&path, "SELECT count(digest) FROM steps WHERE key LIKE 'model/%'"), 2);
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
        "signal/0",
        "signal/1",
        "sleep/0",
    ];
    assert_eq!(keys, expected);
}
