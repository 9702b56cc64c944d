//! What an append costs, counted in pages: the same whatever the session's length.

use std::fs;
use std::path::Path;

use neuron_types::VersionedSessionStorage;

use crate::support::{message, open, place, session};

/// A frame of the log: a page and its header.
const FRAME: u64 = 4096 + 24;

/// How many pages the log has.
fn pages(path: &Path) -> u64 {
    fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len() / FRAME)
}

/// How many pages are written for one turn, at the end of so many messages; 20 times.
async fn appended(messages: usize) -> Vec<u64> {
    let (_folder, path) = place();
    open(&path).await.create(&session("s", messages)).await.unwrap();
    // The last one who closes it empties the log.
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
async fn an_append_writes_as_many_pages_for_ten_thousand_messages_as_for_ten() {
    let (short, long) = (appended(10).await, appended(10_000).await);
    // The row of the session, the end of the messages, the end of their index, the number of commits.
    assert_eq!((short[10], long[10]), (4, 4));
    // Sometimes a page is full, and new ones are needed.
    assert!(long.iter().all(|pages| *pages <= 8), "{long:?}");
}
