//! The size of a journal.

use std::path::Path;

use neuron_durable_sqlite::SqliteRuns;

use crate::support::{Work, files, place};

/// The bytes of everything in the folder, once nobody has it open.
fn size(folder: &Path) -> usize {
    files(folder).values().map(Vec::len).sum()
}

/// Runs `turns` turns with messages of 4 KB. Returns the bytes of the messages and of the journal.
async fn measured(turns: usize) -> (usize, usize) {
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let result = Work::new(turns, 4096).run(&runs, "long").await.unwrap();
    assert_eq!(result.messages.len(), turns * 2 + 2);
    let messages = result.messages.iter().map(|message| serde_json::to_vec(message).unwrap().len());
    // The last one who closes it brings the log into the database.
    drop(runs);
    (messages.sum(), size(folder.path()))
}

#[tokio::test]
async fn a_run_of_200_turns_takes_at_most_twice_the_bytes_of_its_messages() {
    let (messages, journal) = measured(200).await;
    println!("{messages} bytes of messages, {journal} bytes of journal");
    assert!(messages > 200 * 2 * 4096, "{messages}");
    assert!(journal <= messages * 2, "{journal} bytes for {messages}");
}

#[tokio::test]
async fn each_turn_adds_as_much_as_the_one_before() {
    let (_, at_50) = measured(50).await;
    let (_, at_100) = measured(100).await;
    let (_, at_150) = measured(150).await;
    let (first, second) = (at_100 - at_50, at_150 - at_100);
    println!("{first} bytes for 50 turns, and {second} for 50 more");
    // A few pages of the tree, and what is reserved.
    assert!(first.abs_diff(second) < 16 * 4096, "{first} and {second}");
}
