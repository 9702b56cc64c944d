//! Tests of futures that are dropped before they are complete.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use neuron_session_postgres::PostgresSessionStorage;
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, Session, SessionStorage, StorageError, VersionedSessionStorage};

use crate::connections::wait_until;
use crate::support::{in_schema, look, session};

/// Number of polls after which every call is complete, even on a busy machine. The test drops a call after each number
/// of polls below it.
const POLLS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_call_leaves_a_complete_session_and_no_transaction() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = format!("{}?application_name=drops", server.url("postgres"));
    let storage = in_schema("drops").max_connections(4).connect(&url).await.unwrap();

    // Other tasks use the same connections.
    let done = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3)
        .map(|number| {
            let (storage, done) = (storage.clone(), done.clone());
            tokio::spawn(async move {
                let id = format!("other-{number}");
                let mut saved = session(&id, 1);
                while !done.load(Ordering::Relaxed) {
                    saved.messages.push(Message::user("more"));
                    storage.save(&saved).await.unwrap();
                    assert_eq!(storage.load(&id).await.unwrap(), saved);
                }
            })
        })
        .collect();

    let [old, mut new] = [session("s", 20), session("s", 20)];
    new.messages[10] = Message::user("another");
    for polls in 0..POLLS {
        storage.save(&old).await.unwrap();
        drop_after(polls, storage.save(&new)).await;
        let loaded = settled(&storage).await;
        assert!(loaded == old || loaded == new, "after {polls} polls");

        storage.save(&old).await.unwrap();
        let revision = storage.revision("s").await.unwrap();
        drop_after(polls, storage.update(&new, &revision)).await;
        let loaded = settled(&storage).await;
        assert!(loaded == old || loaded == new, "after {polls} polls");

        storage.save(&old).await.unwrap();
        let revision = storage.revision("s").await.unwrap();
        drop_after(polls, storage.append("s", &[Message::user("x")], None, &revision)).await;
        let loaded = settled(&storage).await.messages;
        let is_whole = loaded.len() == 20 || loaded.len() == 21;
        assert!(is_whole && loaded[..20] == old.messages, "after {polls} polls");

        drop_after(polls, storage.delete("s")).await;
        drop_after(polls, storage.create(&old)).await;
        drop_after(polls, storage.load("s")).await;
        drop_after(polls, storage.list()).await;
    }
    done.store(true, Ordering::Relaxed);
    for other in others {
        other.await.unwrap();
    }

    // The server undoes an open transaction when it notices that the client is disconnected.
    let client = look(server).await;
    let open = "SELECT count(*) = 0 FROM pg_stat_activity \
                WHERE application_name = 'drops' AND state <> 'idle'";
    wait_until(&client, open).await;
    let connections = "SELECT count(*) <= 4 FROM pg_stat_activity WHERE application_name = 'drops'";
    wait_until(&client, connections).await;
}

/// Loads the session `s` after all pending writes of the session have ended.
async fn settled(storage: &PostgresSessionStorage) -> Session {
    loop {
        // Writes the loaded session, after every transaction that still locks it.
        let (session, revision) = storage.load_versioned("s").await.unwrap();
        match storage.update(&session, &revision).await {
            Ok(_) => return session,
            Err(StorageError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Polls a future at most `polls` times and then drops it, even if it is not complete.
async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 || Pin::as_mut(&mut future).poll(context).is_ready() {
            return std::task::Poll::Ready(());
        }
        left -= 1;
        std::task::Poll::Pending
    })
    .await;
}
