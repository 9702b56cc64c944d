//! Serves conversations with an agent over HTTP, and streams the responses as server-sent events.

// ANCHOR: imports
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
use serde_json::json;
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
    // `run_owned` returns a stream without borrowed values. `store` saves the conversation after each turn.
    let run = service.agent.run_owned(conversation, new.message.as_str()).store(&session);
    let events = run.stream().filter_map(async |event| event_of(event).map(Ok));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Converts an event of a run into an event of the response. Returns `None` for events that clients do not need.
fn event_of(event: Result<RunEvent, LoopError>) -> Option<Event> {
    let (name, data) = match event {
        Ok(RunEvent::Event(StreamEvent::TextDelta(text))) => ("text", json!(text)),
        Ok(RunEvent::Ended(result)) => ("done", json!({ "turns": result.turns })),
        // The text of an error may quote a request or name an account. The client receives only the kind.
        Err(error) => ("error", json!(error.kind())),
        Ok(_) => return None,
    };
    Some(Event::default().event(name).data(data.to_string()))
}
// ANCHOR_END: service

// ANCHOR: serve
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder(Anthropic::from_env()?).build();
    let service = Service { agent, sessions: Arc::new(InMemorySessionStorage::new()) };
    let app = Router::new().route("/conversations/{id}", post(send)).with_state(service);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        // A service in production waits for `tokio::signal::ctrl_c()`.
        let _ = stopped.await;
    });
    let serving = tokio::spawn(serving.into_future());

    // For this example, the program is its own client.
    for message in [r#"{"message": "My name is Ada."}"#, r#"{"message": "What is my name?"}"#] {
        print!("POST /conversations/1 {message}\n{}", request(address, message).await?);
    }
    let _ = stop.send(());
    serving.await??;
    Ok(())
}
// ANCHOR_END: serve

/// Sends a message to the service, and returns the body of the response. A program would use an HTTP client.
async fn request(address: std::net::SocketAddr, json: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    let length = json.len();
    let request = format!(
        "POST /conversations/1 HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let (_head, body) = response.split_once("\r\n\r\n").ok_or("the response has no body")?;
    Ok(body.to_owned())
}
