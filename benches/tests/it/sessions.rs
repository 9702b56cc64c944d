//! Checks that the number of allocations of an append does not grow with the length of the session. Tests the SQLite
//! and the file storage.

use neuron_benches::ALLOCATOR;
use neuron_benches::session::{Growing, LENGTHS, sqlite};
use neuron_runtime::FileSessionStorage;
use stats_alloc::{Region, Stats};
use tokio::runtime::Runtime;

/// Number of measured appends, of which the minimum is used. Some appends also start a thread, which allocates, because
/// the runtime's blocking thread is not idle yet.
const APPENDS: usize = 20;

#[test]
fn append_allocations_do_not_depend_on_the_length() {
    let _guard = crate::run_alone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let counts = LENGTHS.map(|length| {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let storage = sqlite::storage(folder.path()).await.unwrap();
            let mut session = Growing::new(storage, length, APPENDS + 1).await.unwrap();
            // The first append also prepares the SQL statements, so it is not counted.
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
    appends_to_a_file_allocate_the_same(&runtime);
}

/// Maximum ratio of the allocations of an append after 4,000 turns to the allocations of an append after 100 turns.
const GROWS_AT_MOST: f64 = 1.3;

fn appends_to_a_file_allocate_the_same(runtime: &Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileSessionStorage::new(folder.path().into());
    let mut session = runtime.block_on(Growing::new(storage, 8_000, 1)).unwrap();
    let document = allocations(runtime, &mut session);
    let storage = FileSessionStorage::new(folder.path().join("appended"));
    let mut session = runtime.block_on(Growing::new(storage, 0, 1)).unwrap();
    let after = [100, 3_900].map(|turns| {
        for _ in 0..turns {
            runtime.block_on(session.append()).unwrap();
        }
        allocations(runtime, &mut session)
    });
    println!(
        "an append to a file after 100 and 4,000 turns: {after:?}, to a document: {document:?}"
    );
    let [early, late] = after;
    for (early, late) in
        [(early.0, late.0), (early.1, late.1), (early.0, document.0), (early.1, document.1)]
    {
        assert!(late as f64 <= GROWS_AT_MOST * early as f64, "{early} and {late}");
    }
}

/// Returns the minimum number of allocations of an append, and the minimum number of allocated bytes.
fn allocations(runtime: &Runtime, session: &mut Growing<FileSessionStorage>) -> (usize, usize) {
    let counted: Vec<Stats> = (0..APPENDS)
        .map(|_| {
            let region = Region::new(ALLOCATOR);
            runtime.block_on(session.append()).unwrap();
            region.change()
        })
        .collect();
    let least = |get: fn(&Stats) -> usize| counted.iter().map(get).min().unwrap_or_default();
    (least(|stats| stats.allocations), least(|stats| stats.bytes_allocated))
}
