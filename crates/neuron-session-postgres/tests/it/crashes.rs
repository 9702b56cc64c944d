//! Tests of a server that is killed during writes. After a restart the storage has the old or the new session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_session_postgres::PostgresSessionStorage;
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, SessionStorage, VersionedSessionStorage};

use crate::support::{in_schema, session};

/// Default number of times that the server is killed. The environment variable `KILL_SERVER_ROUNDS` overrides it.
const ROUNDS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_keeps_complete_sessions() {
    let Some(server) = PostgresServer::or_skip() else { return };
    let rounds =
        std::env::var("KILL_SERVER_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let storage = in_schema("killed").connect(&server.url("postgres")).await.unwrap();
    let large = "x".repeat(500_000);
    storage.save(&session("saved", 0)).await.unwrap();
    storage.save(&session("appended", 0)).await.unwrap();

    for round in 0..rounds {
        // One task saves a session of five megabytes, and another appends to a second session. Each counts its
        // acknowledged writes.
        let saved = Arc::new(AtomicUsize::new(0));
        let appended =
            Arc::new(AtomicUsize::new(storage.load("appended").await.unwrap().messages.len()));
        let writers = [
            tokio::spawn(save(storage.clone(), large.clone(), saved.clone())),
            tokio::spawn(append(storage.clone(), appended.clone())),
        ];
        // The delay before the kill differs in each round. Any point of time is allowed.
        tokio::time::sleep(Duration::from_millis(50 + round * 37 % 400)).await;
        let server = &server;
        tokio::task::block_in_place(|| server.kill().unwrap());
        for writer in writers {
            writer.await.unwrap();
        }
        tokio::task::block_in_place(|| server.restart().unwrap());

        let loaded = storage.load("saved").await.unwrap();
        let version = loaded.state.event_count as usize;
        let known = saved.load(Ordering::Relaxed);
        assert!(version == known || version == known + 1 || known == 0, "{version} after {known}");
        let text = |message: &Message| message.text().to_owned();
        assert!(
            loaded.messages.iter().all(|message| text(message) == format!("{version} {large}")),
            "round {round} is torn"
        );
        let there = storage.load("appended").await.unwrap().messages.len();
        let known = appended.load(Ordering::Relaxed);
        assert!(there == known || there == known + 1, "{there} after {known}");
    }
}

/// Saves new versions of a session until the server is killed. Sets `saved` to the number of the last version that was
/// saved successfully. Each message contains the text `large`.
async fn save(storage: PostgresSessionStorage, large: String, saved: Arc<AtomicUsize>) {
    for version in 1.. {
        let mut next = session("saved", 0);
        next.state.event_count = version as u64;
        next.messages = (0..10).map(|_| Message::user(format!("{version} {large}"))).collect();
        if storage.save(&next).await.is_err() {
            return;
        }
        saved.store(version, Ordering::Relaxed);
    }
}

/// Appends messages to a session, one at a time, until the server is killed. `appended` counts the successful appends.
async fn append(storage: PostgresSessionStorage, appended: Arc<AtomicUsize>) {
    let Ok(mut revision) = storage.revision("appended").await else { return };
    while let Ok(next) = storage.append("appended", &[Message::user("x")], None, &revision).await {
        appended.fetch_add(1, Ordering::Relaxed);
        revision = next;
    }
}
