//! What adding a turn to a stored session allocates: the same whatever the session's length.

use neuron_benches::ALLOCATOR;
use neuron_benches::session::{Growing, LENGTHS, sqlite};
use stats_alloc::Region;

// One test: the counter counts for the whole process.
#[test]
fn an_append_allocates_the_same_for_every_length() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let counts = LENGTHS.map(|length| {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let storage = sqlite::storage(folder.path()).await.unwrap();
            let mut session = Growing::new(storage, length, 2).await.unwrap();
            // The first prepares the statements.
            session.append().await.unwrap();
            let region = Region::new(ALLOCATOR);
            session.append().await.unwrap();
            region.change().allocations
        })
    });
    println!("an append to a session of {LENGTHS:?} messages allocates {counts:?} times");
    let [short, long] = counts;
    assert_eq!(short, long);
    assert!(long < 40, "{long}");
}
