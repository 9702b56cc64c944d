//! Tests of the cost of an append in pages. It must not depend on the length of the session.

use std::fs;
use std::path::Path;

use neuron_types::VersionedSessionStorage;

use crate::support::{message, open, place, session};

/// Size in bytes of a frame of the write-ahead log. A frame is a page and its header of 24 bytes.
const FRAME: u64 = 4096 + 24;

/// Returns the number of pages in the write-ahead log.
fn pages(path: &Path) -> u64 {
    fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len() / FRAME)
}

/// Appends 20 turns to a session with this number of messages. Returns the number of pages that each turn wrote,
/// sorted.
async fn appended(messages: usize) -> Vec<u64> {
    let (_folder, path) = place();
    open(&path).await.create(&session("s", messages)).await.unwrap();
    // Closing the last connection has emptied the log.
    let storage = open(&path).await;
    let mut revision = storage.revision("s").await.unwrap();
    let mut written = Vec::new();
    for turn in 0..20 {
        let before = pages(&path);
        let turn = [message(messages + turn * 2), message(messages + turn * 2 + 1)];
        revision = storage.append("s", &turn, None, &revision).await.unwrap();
        written.push(pages(&path) - before);
    }
    written.sort_unstable();
    written
}

#[tokio::test]
async fn append_writes_as_many_pages_for_10000_messages_as_for_10() {
    let (short, long) = (appended(10).await, appended(10_000).await);
    // One page each for the session's row, the messages, their index, and the number of commits.
    assert_eq!((short[10], long[10]), (4, 4));
    // If a page is full, further pages are written.
    assert!(long.iter().all(|pages| *pages <= 8), "{long:?}");
}
