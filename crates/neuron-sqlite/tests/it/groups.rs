//! Tests of writes that wait at the same time. They share a transaction without affecting each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use neuron_sqlite::rusqlite::Transaction;
use neuron_sqlite::{Abort, Database, SqliteError, SqliteOptions, Synchronous};

use crate::support::{NOTES, add, all, place};

/// Starts a write that holds the connection until the sender is dropped.
async fn hold(notes: &Database) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, released) = mpsc::channel::<()>();
    let (began, begins) = tokio::sync::oneshot::channel();
    let notes = notes.clone();
    let holding = tokio::spawn(async move {
        let write = notes.write::<(), SqliteError>(move |_| {
            let _ = began.send(());
            let _ = released.recv();
            Ok(())
        });
        write.await.unwrap();
    });
    begins.await.unwrap();
    (release, holding)
}

fn insert(
    body: String,
) -> impl FnOnce(&Transaction<'_>) -> Result<u64, Abort<SqliteError>> + Send + 'static {
    move |transaction| {
        transaction.execute("INSERT INTO notes (body) VALUES (?1)", [body])?;
        Ok(commits(transaction))
    }
}

/// Returns the number of commits in the database.
fn commits(transaction: &Transaction<'_>) -> u64 {
    let number = transaction.query_one("SELECT number FROM neuron_commits", [], |row| row.get(0));
    number.unwrap_or_default()
}

async fn witnessed(path: &std::path::Path) -> Database {
    let options = SqliteOptions::new().synchronous(Synchronous::Full);
    Database::open_witnessed(path, NOTES, options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_writes_share_a_transaction() {
    let (_folder, path) = place();
    let notes = witnessed(&path).await;
    add(&notes, "first").await.unwrap();
    let (release, holding) = hold(&notes).await;
    // More writes than one transaction may contain.
    let mut writes: Vec<_> = (0..600)
        .map(|number| Box::pin(notes.write::<u64, SqliteError>(insert(number.to_string()))))
        .collect();
    for write in &mut writes {
        assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(release);
    let mut seen = Vec::new();
    for write in writes {
        seen.push(write.await.unwrap());
    }
    holding.await.unwrap();
    seen.dedup();
    assert_eq!(seen.len(), 3, "600 writes in transactions of 256: {seen:?}");
    let expected = (0..600).map(|number| number.to_string());
    let expected: Vec<String> = std::iter::once("first".into()).chain(expected).collect();
    assert_eq!(all(&notes).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_or_dropped_write_does_not_affect_other_writes() {
    for path in ["notes.db", ":memory:"] {
        let (folder, _) = place();
        let path = if path == ":memory:" { path.into() } else { folder.path().join(path) };
        let notes = witnessed(&path).await;
        let (release, holding) = hold(&notes).await;
        let mut cx = Context::from_waker(Waker::noop());
        let mut before = pin!(add(&notes, "before"));
        let mut fails = pin!(notes.write::<(), SqliteError>(|transaction| {
            transaction.execute("INSERT INTO notes (body) VALUES ('of a failure')", [])?;
            transaction.execute("INSERT INTO nowhere VALUES (1)", [])?;
            Ok(())
        }));
        let mut panics = Box::pin(notes.write::<(), SqliteError>(|transaction| {
            transaction.execute("INSERT INTO notes (body) VALUES ('of a panic')", [])?;
            std::panic::panic_any("the work panics")
        }));
        let mut dropped = Box::pin(add(&notes, "dropped"));
        let mut after = pin!(add(&notes, "after"));
        assert!(before.as_mut().poll(&mut cx).is_pending());
        assert!(fails.as_mut().poll(&mut cx).is_pending());
        assert!(panics.as_mut().poll(&mut cx).is_pending());
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
        assert!(after.as_mut().poll(&mut cx).is_pending());
        drop(dropped);
        drop(release);
        before.await.unwrap();
        let error = fails.await.unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
        let panicked = loop {
            let polled = catch_unwind(AssertUnwindSafe(|| panics.as_mut().poll(&mut cx)));
            match polled {
                Ok(Poll::Pending) => tokio::task::yield_now().await,
                other => break other.err().unwrap(),
            }
        };
        assert_eq!(*panicked.downcast::<&str>().unwrap(), "the work panics");
        after.await.unwrap();
        holding.await.unwrap();
        assert_eq!(all(&notes).await.unwrap(), ["before", "after"]);
    }
}

/// If SQLite undoes a transaction, for example because the disk is full, all earlier writes of the transaction must
/// fail. Writes of the next transaction must succeed.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_undone_by_sqlite_fails_only_its_own_writes() {
    let (_folder, path) = place();
    let notes = witnessed(&path).await;
    let (release, holding) = hold(&notes).await;
    let mut before = Box::pin(add(&notes, "before"));
    let mut undoes = Box::pin(notes.write::<(), SqliteError>(|transaction| {
        // Simulates that SQLite undoes the transaction.
        transaction.execute_batch("ROLLBACK")?;
        Ok(())
    }));
    let mut after = Box::pin(add(&notes, "after"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(before.as_mut().poll(&mut cx).is_pending());
    assert!(undoes.as_mut().poll(&mut cx).is_pending());
    assert!(after.as_mut().poll(&mut cx).is_pending());
    drop(release);
    for undone in [before.await.unwrap_err(), undoes.await.unwrap_err()] {
        assert!(undone.to_string().contains("a write of the transaction failed"), "{undone}");
    }
    after.await.unwrap();
    holding.await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["after"]);
}

/// A power failure can undo a commit without a sync. So the witness, the file that detects lost commits, must not count
/// that commit.
#[tokio::test]
async fn write_without_a_sync_is_not_counted_by_the_witness() {
    let (_folder, path) = place();
    let notes = witnessed(&path).await;
    add(&notes, "synced").await.unwrap();
    let witness = || std::fs::read(path.with_file_name("notes.db-witness")).unwrap();
    let before = witness();
    notes.write_unsynced(insert("not synced".into())).await.unwrap();
    assert_eq!(witness(), before);
    assert_eq!(all(&notes).await.unwrap(), ["synced", "not synced"]);
    add(&notes, "synced again").await.unwrap();
    assert_ne!(witness(), before);
    // A write with a sync in the same transaction as a write without one.
    let (release, holding) = hold(&notes).await;
    let mut unsynced = Box::pin(notes.write_unsynced(insert("with".into())));
    let mut synced = Box::pin(notes.write(insert("both".into())));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(unsynced.as_mut().poll(&mut cx).is_pending());
    assert!(synced.as_mut().poll(&mut cx).is_pending());
    let before = witness();
    drop(release);
    assert_eq!(unsynced.await.unwrap(), synced.await.unwrap());
    holding.await.unwrap();
    assert_ne!(witness(), before);
    drop(notes);
    assert_eq!(all(&witnessed(&path).await).await.unwrap().len(), 5);
}
