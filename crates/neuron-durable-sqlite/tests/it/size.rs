//! Tests of the size of a journal.

use std::path::Path;

use neuron_durable_sqlite::SqliteRuns;

use crate::support::{Work, files, place};

/// Returns the total size of the files in a folder, in bytes. The database must be closed.
fn size(folder: &Path) -> usize {
    files(folder).values().map(Vec::len).sum()
}

/// Runs `turns` turns with messages of 4 KB. Returns the sizes of the messages and of the journal in bytes.
async fn measured(turns: usize) -> (usize, usize) {
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let result = Work::new(turns, 4096).run(&runs, "long").await.unwrap();
    assert_eq!(result.messages.len(), turns * 2 + 2);
    let messages = result.messages.iter().map(|message| serde_json::to_vec(message).unwrap().len());
    // Closing the last connection moves the log into the database file.
    drop(runs);
    (messages.sum(), size(folder.path()))
}

#[tokio::test]
async fn journal_of_200_turns_has_at_most_twice_the_size_of_its_messages() {
    let (messages, journal) = measured(200).await;
    println!("{messages} bytes of messages, {journal} bytes of journal");
    assert!(messages > 200 * 2 * 4096, "{messages}");
    assert!(journal <= messages * 2, "{journal} bytes for {messages}");
}

#[tokio::test]
async fn journal_grows_by_the_same_size_in_each_turn() {
    let (_, at_50) = measured(50).await;
    let (_, at_100) = measured(100).await;
    let (_, at_150) = measured(150).await;
    let (first, second) = (at_100 - at_50, at_150 - at_100);
    println!("{first} bytes for 50 turns, and {second} for 50 more");
    // The difference may be a few pages of the tree and reserved space.
    assert!(first.abs_diff(second) < 16 * 4096, "{first} and {second}");
}
