//! Test helpers for runs, tools, and changes of stored rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::step_row::StepRow;
use crate::{SqliteDurableContext, SqliteRuns};
use neuron_testing::ScriptedProvider;
use neuron_tool::ToolRegistry;
use neuron_types::*;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns a path for a database, in a folder that is removed when the first value is dropped.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    (folder, path)
}

pub(crate) fn no_tools() -> Arc<ToolRegistry> {
    Arc::new(ToolRegistry::new())
}

/// Returns a model without responses.
pub(crate) fn silent() -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::new(Vec::<neuron_testing::Reply>::new()))
}

/// Opens a run whose model returns these responses.
pub(crate) async fn answering(
    runs: &SqliteRuns,
    id: &str,
    replies: &[&str],
) -> (SqliteDurableContext<ScriptedProvider>, Arc<ScriptedProvider>) {
    let provider = Arc::new(ScriptedProvider::new(replies.iter().copied()));
    (runs.run(id).open(provider.clone(), no_tools()).await.unwrap(), provider)
}

pub(crate) fn request(text: &str) -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user(text)], ..Default::default() }
}

/// A tool that counts its calls, and returns its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    pub(crate) name: &'static str,
    pub(crate) effect: ToolEffect,
    pub(crate) ran: Arc<AtomicUsize>,
}

impl Echo {
    pub(crate) fn new(name: &'static str, effect: ToolEffect) -> Self {
        Self { name, effect, ran: Arc::default() }
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }
}

impl ToolDyn for Echo {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: "Gives its arguments back".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.ran.fetch_add(1, Ordering::SeqCst);
            ctx.usage.add(&TokenUsage { output_tokens: 5, ..Default::default() });
            Ok(ToolOutput::text(format!("{input} {}", ctx.idempotency_key)))
        })
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }
}

pub(crate) fn invocation(name: &str, input: Value) -> ToolInvocation {
    let call = ToolCall { id: format!("call-{name}"), name: name.into(), input };
    let ctx = ToolContext {
        call_id: call.id.clone(),
        idempotency_key: format!("key-{name}"),
        ..Default::default()
    };
    ToolInvocation::new(call, ctx).with_effect(ToolEffect::Pure)
}

pub(crate) fn text_of(output: &ToolOutput) -> String {
    let text = |item: &ContentItem| match item {
        ContentItem::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    output.content.iter().map(text).collect()
}

/// Changes the steps at these positions of the run with the id `r`, and updates their checksums.
pub(crate) fn edit_steps(path: &Path, positions: &[i64], edit: impl Fn(&mut StepRow)) {
    let connection = Connection::open(path).unwrap();
    let run: i64 =
        connection.query_row("SELECT key FROM runs WHERE id = 'r'", [], |row| row.get(0)).unwrap();
    for mut step in StepRow::load(&connection, (run, "r"), 0).unwrap() {
        if positions.contains(&step.position) {
            let delete = "DELETE FROM steps WHERE run = ?1 AND position = ?2";
            connection.execute(delete, (run, step.position)).unwrap();
            edit(&mut step);
            step.insert(&connection, run).unwrap();
        }
    }
}

/// Removes the results and end times of the steps at these positions of the run `r`. The journal then looks as if the
/// process had been killed before these steps ended.
pub(crate) fn forget(path: &Path, positions: &[i64]) {
    edit_steps(path, positions, |step| {
        step.ended_at = None;
        step.record = None;
    });
}

/// Executes SQL on a separate connection.
pub(crate) fn run(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Returns the number that an SQL query selects, on a separate connection.
pub(crate) fn look(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Opens a run without tools, whose model has no responses.
pub(crate) async fn opened(runs: &SqliteRuns, id: &str) -> SqliteDurableContext<ScriptedProvider> {
    runs.run(id).open(silent(), no_tools()).await.unwrap()
}
