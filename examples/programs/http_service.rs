//! Serves conversations with an agent over HTTP, and streams the responses as server-sent events.

// ANCHOR: imports
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
// ANCHOR_END: imports

// ANCHOR: service
/// The state of the service. All requests share one agent.
#[derive(Clone)]
struct Service {
    agent: Agent,
    sessions: Arc<InMemorySessionStorage>,
}

#[derive(Deserialize)]
struct NewMessage {
    message: String,
}

/// Adds a message to a conversation, and streams the response.
async fn send(
    State(service): State<Service>,
    Path(id): Path<String>,
    Json(new): Json<NewMessage>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    let session = SessionHandle::new(service.sessions, id);
    let conversation = session.load().await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    // A new message would start a new run, and the pending calls would not run.
    if conversation.pending().is_some() {
        return Err(StatusCode::CONFLICT);
    }
    // `run_owned` returns a stream without borrowed values. `store` saves the conversation after each turn.
    let run = service.agent.run_owned(conversation, new.message.as_str()).store(&session);
    Ok(respond(run.stream()))
}

/// Sends the events of a run to the client.
fn respond(run: RunStream<'static>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = run.filter_map(async |event| event_of(event).map(Ok));
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Converts an event of a run into an event of the response. Returns `None` for events that clients do not need.
fn event_of(event: Result<RunEvent, LoopError>) -> Option<Event> {
    let (name, data) = match event {
        Ok(RunEvent::Event(StreamEvent::TextDelta(text))) => ("text", json!(text)),
        Ok(RunEvent::Ended(result)) => ("done", json!({ "turns": result.turns })),
        // The last event of a run that waits for decisions.
        Err(LoopError::ApprovalRequired(pending)) => ("approval", pending_calls(&pending)),
        // The text of an error may quote a request or name an account. The client receives only the kind.
        Err(error) => ("error", json!(error.kind())),
        Ok(_) => return None,
    };
    Some(Event::default().event(name).data(data.to_string()))
}
// ANCHOR_END: service

// ANCHOR: approval
/// Cancels an order.
#[neuron_tool]
async fn cancel_order(order: u32) -> Result<String, ToolError> {
    Ok(format!("order {order} is cancelled"))
}

/// Returns the pending calls for the client.
fn pending_calls(pending: &PendingApproval) -> Value {
    let calls = pending.calls.iter().map(|waiting| {
        let call = &waiting.call;
        json!({ "id": waiting.approval_id, "tool": call.name, "input": call.input, "why": waiting.reason })
    });
    calls.collect()
}

/// Continues a run that waits. The body has `true` (approve) or `false` (deny) for the id of each pending call.
async fn decide(
    State(service): State<Service>,
    Path(id): Path<String>,
    Json(decided): Json<BTreeMap<String, bool>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    let session = SessionHandle::new(service.sessions, id);
    let conversation = session.load().await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    if conversation.pending().is_none() {
        return Err(StatusCode::CONFLICT);
    }
    let mut decisions = ApprovalDecisions::new();
    for (call, is_approved) in &decided {
        decisions = match is_approved {
            true => decisions.approve(call),
            false => decisions.deny(call, "the user denied the call"),
        };
    }
    let run = service.agent.run_owned(conversation, decisions).store(&session);
    Ok(respond(run.stream()))
}
// ANCHOR_END: approval

// ANCHOR: serve
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(CancelOrderTool);
    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .permission_policy(PermissionRules::new([PermissionRule::ask("cancel_order")])?)
        .config(|config| config.pause_for_approval = true)
        .build();
    let service = Service { agent, sessions: Arc::new(InMemorySessionStorage::new()) };
    let app = Router::new()
        .route("/conversations/{id}", post(send))
        .route("/conversations/{id}/decisions", post(decide))
        .with_state(service);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        // A service in production waits for `tokio::signal::ctrl_c()`.
        let _ = stopped.await;
    });
    let serving = tokio::spawn(serving.into_future());

    // For this example, the program is its own client.
    let (chat, decisions) = ("/conversations/1", "/conversations/1/decisions");
    let mut asked = String::new();
    for (path, json) in [
        (chat, r#"{"message": "My name is Ada."}"#),
        (chat, r#"{"message": "What is my name?"}"#),
        (chat, r#"{"message": "Cancel my order 7."}"#),
        (chat, r#"{"message": "Are you there?"}"#),
        (decisions, r#"{"ID": true}"#),
        // A second click does not cancel another order.
        (decisions, r#"{"ID": true}"#),
    ] {
        let json = json.replace("ID", &asked);
        let response = request(address, path, &json).await?;
        if let Some((_, rest)) = response.split_once(r#""id":""#) {
            asked = rest.split('"').next().unwrap_or_default().to_owned();
        }
        let shown = format!("POST {path} {json}\n{response}");
        // The id is another one in each run.
        print!("{}", if asked.is_empty() { shown } else { shown.replace(&asked, "ID") });
    }
    let _ = stop.send(());
    serving.await??;
    Ok(())
}
// ANCHOR_END: serve

/// Sends a POST request, and returns the body of the response, or the status of a failed request. A program would use an
/// HTTP client.
async fn request(
    address: std::net::SocketAddr,
    path: &str,
    json: &str,
) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    let length = json.len();
    let request = format!(
        "POST {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("the response has no body")?;
    Ok(match head.split(' ').nth(1) {
        Some("200") => body.to_owned(),
        status => format!("status {}\n\n", status.unwrap_or_default()),
    })
}
