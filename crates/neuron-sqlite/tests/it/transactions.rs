//! Tests of transactions, which are committed completely or not at all after errors, panics and drops.

use std::path::Path;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

use neuron_sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use neuron_sqlite::{Abort, Database, SqliteError, SqliteOptions};
use tokio::sync::oneshot;

use crate::support::{NOTES, add, all, open, place};

const INSERT: &str = "INSERT INTO notes (body) VALUES ('from a transaction')";

/// The error type of the transactions in these tests.
#[derive(Debug)]
enum Reason {
    Enough,
    Sqlite(SqliteError),
}

impl From<SqliteError> for Reason {
    fn from(error: SqliteError) -> Self {
        Self::Sqlite(error)
    }
}

#[tokio::test]
async fn failed_write_is_undone() {
    for path in ["notes.db", ":memory:"] {
        let (folder, _) = place();
        let path = if path == ":memory:" { path.into() } else { folder.path().join(path) };
        let notes = open(&path).await.unwrap();
        let given_up = notes.write::<(), Reason>(|transaction| {
            transaction.execute(INSERT, [])?;
            Err(Abort::Own(Reason::Enough))
        });
        assert!(matches!(given_up.await.unwrap_err(), Reason::Enough));
        let failed = notes.write::<(), Reason>(|transaction| {
            transaction.execute(INSERT, [])?;
            transaction.execute("INSERT INTO nowhere VALUES (1)", [])?;
            Ok(())
        });
        let Reason::Sqlite(error) = failed.await.unwrap_err() else { panic!("SQLite's error") };
        assert!(error.to_string().contains("nowhere"), "{error}");
        assert!(all(&notes).await.unwrap().is_empty());
        add(&notes, "after").await.unwrap();
        assert_eq!(all(&notes).await.unwrap(), ["after"]);
    }
}

#[tokio::test]
async fn panicking_write_is_undone_and_panics_in_the_caller() {
    for path in ["notes.db", ":memory:"] {
        let (folder, _) = place();
        let path = if path == ":memory:" { path.into() } else { folder.path().join(path) };
        let notes = open(&path).await.unwrap();
        let clone = notes.clone();
        let panicking = tokio::spawn(async move {
            let write = clone.write::<(), SqliteError>(|transaction| {
                transaction.execute(INSERT, [])?;
                std::panic::panic_any("the work panics");
            });
            write.await
        });
        let payload = panicking.await.unwrap_err().into_panic();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the work panics");
        let clone = notes.clone();
        let panicking = tokio::spawn(async move {
            clone.read::<(), SqliteError>(|_| std::panic::panic_any("so does a reader")).await
        });
        assert!(panicking.await.unwrap_err().is_panic());
        add(&notes, "after").await.unwrap();
        assert_eq!(all(&notes).await.unwrap(), ["after"]);
    }
}

/// Returns a write that stops in the middle of its transaction. The receiver gets a message when the transaction has
/// begun. A message to the sender lets the write continue.
fn stopping_write(
    notes: &Database,
) -> (impl Future<Output = Result<(), SqliteError>> + use<>, oneshot::Receiver<()>, mpsc::Sender<()>)
{
    let (begun, begins) = oneshot::channel();
    let (go_on, told) = mpsc::channel::<()>();
    let notes = notes.clone();
    let write = async move {
        let work = notes.write(move |transaction| {
            transaction.execute(INSERT, [])?;
            let _ = begun.send(());
            let _ = told.recv();
            Ok(())
        });
        work.await
    };
    (write, begins, go_on)
}

#[tokio::test]
async fn write_dropped_in_its_transaction_is_undone() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let (write, begins, go_on) = stopping_write(&notes);
    tokio::select! {
        _ = write => panic!("nobody told it to go on"),
        begun = begins => begun.unwrap(),
    }
    // The later write waits until the dropped write is undone.
    let mut later = Box::pin(add(&notes, "later"));
    assert!(later.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    go_on.send(()).unwrap();
    later.await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["later"]);
}

#[tokio::test]
async fn write_dropped_before_its_turn_does_nothing() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let (write, begins, go_on) = stopping_write(&notes);
    let write = tokio::spawn(write);
    begins.await.unwrap();
    let mut dropped = Box::pin(add(&notes, "dropped"));
    assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(dropped);
    go_on.send(()).unwrap();
    write.await.unwrap().unwrap();
    add(&notes, "later").await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["from a transaction", "later"]);
}

/// A dropped write may still be committing. Its commit must not come after a read that began after the drop.
#[tokio::test]
async fn read_after_a_dropped_write_sees_its_commit() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let mut drops = 0;
    for round in 0..400_u64 {
        let time = Duration::from_micros(round % 200 * 10);
        drops += u32::from(tokio::time::timeout(time, add(&notes, "dropped")).await.is_err());
        let read = all(&notes).await.unwrap().len();
        // A write runs after the commits of all earlier writes.
        let written = notes.write::<usize, SqliteError>(|transaction| {
            Ok(transaction.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
        });
        assert_eq!(read, written.await.unwrap(), "round {round}");
    }
    assert!(drops > 0);
}

#[tokio::test]
async fn reads_do_not_wait_for_writes() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "before").await.unwrap();
    let (write, begins, go_on) = stopping_write(&notes);
    let write = tokio::spawn(write);
    begins.await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["before"]);
    go_on.send(()).unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["before", "from a transaction"]);
}

#[tokio::test]
async fn read_sees_one_state_of_the_database() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let (begun, begins) = oneshot::channel();
    let (go_on, told) = mpsc::channel::<()>();
    let clone = notes.clone();
    let read = tokio::spawn(async move {
        let counts = clone.read::<_, SqliteError>(move |transaction| {
            let count = || {
                transaction.query_row("SELECT count(*) FROM notes", [], |row| row.get::<_, i64>(0))
            };
            let before = count()?;
            let _ = begun.send(());
            let _ = told.recv();
            Ok((before, count()?))
        });
        counts.await
    });
    begins.await.unwrap();
    add(&notes, "meanwhile").await.unwrap();
    go_on.send(()).unwrap();
    assert_eq!(read.await.unwrap().unwrap(), (0, 0));
    assert_eq!(all(&notes).await.unwrap().len(), 1);
}

#[tokio::test]
async fn read_transaction_cannot_write() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let error = notes
        .read::<_, SqliteError>(|transaction| Ok(transaction.execute(INSERT, [])?))
        .await
        .unwrap_err();
    assert!(matches!(error, SqliteError::ReadOnly { .. }), "{error:?}");
    assert!(all(&notes).await.unwrap().is_empty());
}

#[tokio::test]
async fn concurrent_reads_are_limited_by_the_option_readers() {
    let (_folder, path) = place();
    let options = SqliteOptions::new().readers(2);
    let notes = Database::open(&path, NOTES, options).await.unwrap();
    let stopping_read = || {
        let (begun, begins) = oneshot::channel();
        let (go_on, told) = mpsc::channel::<()>();
        let notes = notes.clone();
        let read = tokio::spawn(async move {
            let work = notes.read::<_, SqliteError>(move |_| {
                let _ = begun.send(());
                let _ = told.recv();
                Ok(())
            });
            work.await
        });
        (read, begins, go_on)
    };
    let (first, begins, go_on) = stopping_read();
    begins.await.unwrap();
    let (second, begins, _go_on_too) = stopping_read();
    begins.await.unwrap();
    let mut third = Box::pin(all(&notes));
    assert!(third.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    go_on.send(()).unwrap();
    first.await.unwrap().unwrap();
    third.await.unwrap();
    drop(_go_on_too);
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_and_reads_lose_nothing() {
    let (_folder, path) = place();
    let handles = [open(&path).await.unwrap(), open(&path).await.unwrap()];
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let notes = handles[task % 2].clone();
            tokio::spawn(async move {
                for number in 0..5 {
                    add(&notes, &format!("{task}/{number}")).await.unwrap();
                    let found = all(&notes).await.unwrap();
                    let mine = found.iter().filter(|body| body.starts_with(&format!("{task}/")));
                    assert_eq!(mine.count(), number + 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut found = all(&handles[0]).await.unwrap();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 64 * 5);
}

#[tokio::test]
async fn write_of_another_process_is_a_busy_error() {
    let (_folder, path) = place();
    let options = SqliteOptions::new().busy_timeout(Duration::from_millis(1));
    let notes = Database::open(&path, NOTES, options.clone()).await.unwrap();
    let mut other = Connection::open(&path).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = add(&notes, "one").await.unwrap_err();
    assert!(matches!(error, SqliteError::Busy { .. }), "{error:?}");
    assert!(error.is_retryable());
    let words = "is locked by another process: wait until that process is done, stop it, or use \
                 another file";
    assert_eq!(error.to_string(), format!("{} {words}", path.display()));
    // Opening an up-to-date database needs no lock.
    Database::open(&path, NOTES, options).await.unwrap();
    drop(held);
    add(&notes, "one").await.unwrap();
}

#[test]
fn write_after_runtime_shutdown_is_an_error() {
    let (_folder, path) = place();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let notes = runtime.block_on(open(&path)).unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let _entered = handle.enter();
    let mut write = Box::pin(add(&notes, "one"));
    match write.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(Err(SqliteError::Stopped { path })) => {
            assert_eq!(Path::new(&path), notes.path());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn read_apart_does_not_wait_for_pending_writes() {
    let count = |notes: &Database, waits_for_writers: bool| {
        let notes = notes.clone();
        async move {
            let count = |transaction: &Transaction<'_>| {
                let sql = "SELECT count(*) FROM notes";
                Ok(transaction.query_row(sql, [], |row| row.get::<_, i64>(0))?)
            };
            match waits_for_writers {
                true => notes.read_apart_from_writers::<_, SqliteError>(count).await.unwrap(),
                false => notes.read_apart::<_, SqliteError>(count).await.unwrap(),
            }
        }
    };
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let (write, begins, go_on) = stopping_write(&notes);
    let write = tokio::spawn(write);
    begins.await.unwrap();
    let mut queued = Box::pin(add(&notes, "queued"));
    assert!(queued.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(count(&notes, false).await, Some(0));
    let mut behind = Box::pin(count(&notes, true));
    tokio::time::timeout(Duration::from_millis(50), behind.as_mut()).await.unwrap_err();
    go_on.send(()).unwrap();
    write.await.unwrap().unwrap();
    // The queued write now has the connection that writes.
    assert_eq!(behind.await, Some(1));
    assert_eq!(count(&notes, false).await, Some(1));
    queued.await.unwrap();
    assert_eq!(all(&notes).await.unwrap().len(), 2);

    let memory = Database::open(":memory:", NOTES, SqliteOptions::new()).await.unwrap();
    assert_eq!(count(&memory, true).await, Some(0));
    let (write, begins, go_on) = stopping_write(&memory);
    let write = tokio::spawn(write);
    begins.await.unwrap();
    assert_eq!(count(&memory, false).await, None);
    go_on.send(()).unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(count(&memory, false).await, Some(1));
}
