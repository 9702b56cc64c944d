//! Checks that the allocations of an append do not depend on the length of the session.

use neuron_benches::ALLOCATOR;
use neuron_benches::session::{Growing, LENGTHS, sqlite};
use stats_alloc::Region;

/// Number of counted appends. The minimum is used. If the thread of the previous append is not idle yet, the runtime
/// starts another thread, which also allocates.
const APPENDS: usize = 20;

// There is only one test, because the counter is for the whole process.
#[test]
fn an_append_allocates_the_same_for_every_length() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let counts = LENGTHS.map(|length| {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let storage = sqlite::storage(folder.path()).await.unwrap();
            let mut session = Growing::new(storage, length, APPENDS + 1).await.unwrap();
            // The first append prepares the statements.
            session.append().await.unwrap();
            let mut least = usize::MAX;
            for _ in 0..APPENDS {
                let region = Region::new(ALLOCATOR);
                session.append().await.unwrap();
                least = least.min(region.change().allocations);
            }
            least
        })
    });
    println!("an append to a session of {LENGTHS:?} messages allocates {counts:?} times");
    let [short, long] = counts;
    assert_eq!(short, long);
    assert!(long < 40, "{long}");
}
