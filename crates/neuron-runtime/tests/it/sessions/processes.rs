//! Tests of several processes that write one session.

use std::collections::BTreeSet;
use std::time::Duration;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_runtime::{FileSessionStorage, Session, SessionStorage, VersionedSessionStorage};
use neuron_types::{Message, StorageError};

use crate::sessions::temporary::Temporary;

/// Number of messages that each process adds.
const MESSAGES: usize = 40;

async fn add(storage: &FileSessionStorage, text: &str) {
    loop {
        let (mut session, revision) = storage.load_versioned("shared").await.unwrap();
        let message = Message::user(text);
        let added = if text.ends_with('0') {
            session.messages.push(message);
            storage.update(&session, &revision).await
        } else {
            storage.append("shared", &[message], None, &revision).await
        };
        match added {
            Ok(_) => return,
            Err(StorageError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn concurrent_appends_lose_no_message() {
    if let Some(task) = child_process::task() {
        let (name, place) = task.split_once(' ').unwrap();
        let storage = FileSessionStorage::new(place.into());
        child_process::report("begun");
        for index in 0..MESSAGES {
            add(&storage, &format!("{name}-{index}")).await;
        }
        child_process::report("done");
        std::future::pending().await
    }
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.create(&Session::new("shared", ".".into())).await.unwrap();
    let mut processes: Vec<ChildProcess> = (0..3)
        .map(|name| {
            let place = temporary.join("sessions");
            ChildProcess::start(
                "sessions::processes::concurrent_appends_lose_no_message",
                &format!("{name} {}", place.display()),
            )
        })
        .collect();
    for process in &mut processes {
        assert_eq!(process.next_report(Duration::from_secs(60)).as_deref(), Some("begun"));
    }
    for index in 0..MESSAGES {
        add(&storage, &format!("here-{index}")).await;
    }
    for process in &mut processes {
        assert_eq!(process.next_report(Duration::from_secs(60)).as_deref(), Some("done"));
    }
    let session = storage.load("shared").await.unwrap();
    let texts: BTreeSet<String> = session.messages.iter().map(Message::text).collect();
    assert_eq!(session.messages.len(), 4 * MESSAGES);
    assert_eq!(texts.len(), 4 * MESSAGES);
}
