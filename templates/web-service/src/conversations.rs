//! The requests of the service.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use neuron::agent::SessionHandle;
use neuron::prelude::*;
use neuron::session_sqlite::SqliteSessionStorage;
use neuron::types::StorageError;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone)]
struct Service {
    agent: Agent,
    sessions: Arc<SqliteSessionStorage>,
}

/// Creates the routes.
pub(crate) fn router(agent: Agent, sessions: SqliteSessionStorage) -> Router {
    Router::new()
        .route("/conversations/{id}", post(send).get(read))
        .with_state(Service { agent, sessions: Arc::new(sessions) })
}

#[derive(Deserialize)]
struct NewMessage {
    message: String,
}

#[derive(Serialize)]
struct Line {
    role: Role,
    text: String,
}

/// A status and the text of an error.
type Failure = (StatusCode, String);

/// Converts an error of the storage. Clients do not see the details of an internal error.
fn failure(error: StorageError) -> Failure {
    match error {
        StorageError::Conflict { .. } => (StatusCode::CONFLICT, error.to_string()),
        StorageError::InvalidId { .. } => (StatusCode::BAD_REQUEST, error.to_string()),
        _ => {
            eprintln!("error: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned())
        }
    }
}

/// Returns the texts of a conversation. A conversation that does not exist is empty.
async fn read(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Line>>, Failure> {
    let session = SessionHandle::new(service.sessions, id);
    let conversation = session.load().await.map_err(failure)?;
    let lines = conversation.messages().iter().filter_map(|message| {
        let text = message.text();
        (!text.is_empty()).then_some(Line { role: message.role, text })
    });
    Ok(Json(lines.collect()))
}

/// Adds a message, and streams the response. The conversation is stored after each turn.
///
/// If two requests write the same conversation at the same time, one of them ends with an `error` event. Its response is
/// not stored.
async fn send(
    State(service): State<Service>,
    Path(id): Path<String>,
    Json(new): Json<NewMessage>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let session = SessionHandle::new(service.sessions, id);
    let conversation = session.load().await.map_err(failure)?;
    let events =
        service.agent.run_owned(conversation, new.message.as_str()).store(&session).stream();
    Ok(Sse::new(events.filter_map(async |event| event_of(event).map(Ok)))
        .keep_alive(KeepAlive::default()))
}

/// Converts an event of a run into an event of the response. Returns `None` for events that clients do not need.
fn event_of(event: Result<RunEvent, LoopError>) -> Option<Event> {
    let (name, data) = match event {
        Ok(RunEvent::Event(StreamEvent::TextDelta(text))) => ("text", json!(text)),
        Ok(RunEvent::Event(StreamEvent::ToolUse { name, .. })) => ("tool", json!(name)),
        Ok(RunEvent::Ended(result)) => {
            let (input, output) = (result.usage.input_tokens, result.usage.output_tokens);
            (
                "done",
                json!({ "turns": result.turns, "input_tokens": input, "output_tokens": output }),
            )
        }
        // The text of a vendor's error may name your account, so clients see only the kind of error.
        Err(error) => {
            eprintln!("error: {error}");
            ("error", json!(error.kind()))
        }
        Ok(_) => return None,
    };
    Some(Event::default().event(name).data(data.to_string()))
}
