//! A web service with an agent. Each conversation is a session in SQLite.
//!
//! | request | response |
//! |---|---|
//! | `POST /conversations/{id}` with `{"message": "…"}` | server-sent events `text`, `tool`, `done` and `error` |
//! | `GET /conversations/{id}` | the texts of the conversation, as JSON |
//!
//! If a client disconnects, its run is dropped, and no further model call is made.

mod agent;
mod conversations;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use neuron::session_sqlite::SqliteSessionStorage;

/// Time that responses have to end when the service is stopped.
const GRACE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let path = std::env::var("DATABASE").unwrap_or_else(|_| "conversations.db".to_owned());
    let service = conversations::router(agent::agent()?, SqliteSessionStorage::open(path).await?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    // After the signal no request is accepted, and responses that have begun have some time to end.
    let serve = axum::serve(listener, service).with_graceful_shutdown(stopped());
    let deadline = async {
        stopped().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = serve => served?,
        () = deadline => {}
    }
    Ok(())
}

/// Waits for Ctrl-C, or for the signal with which containers are stopped.
async fn stopped() {
    let ctrl_c = tokio::signal::ctrl_c();
    #[cfg(unix)]
    if let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = ctrl_c => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = ctrl_c.await;
}
