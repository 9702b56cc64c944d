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

use neuron::session_sqlite::SqliteSessionStorage;

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
    // Responses that have begun may end, and no request is accepted after Ctrl-C.
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, service).with_graceful_shutdown(stopped).await?;
    Ok(())
}
