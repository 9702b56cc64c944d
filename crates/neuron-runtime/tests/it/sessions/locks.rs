//! Tests of locks that another process holds, or that are deleted during a wait.

use std::fs::{self, File};
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use neuron_runtime::{Session, SessionStorage, VersionedSessionStorage};
use neuron_types::{Message, StorageError};
use tokio::runtime::{Builder, Runtime};

use crate::sessions::temporary::{Temporary, names};

/// Creates a runtime with a single blocking thread, which runs one task after another.
fn runtime() -> Runtime {
    Builder::new_current_thread().max_blocking_threads(1).enable_time().build().unwrap()
}

fn session(text: &str) -> Session {
    let mut session = Session::new("s", ".".into());
    session.messages = vec![Message::user(text)];
    session
}

/// Takes the only lock file, as another process would. Dropping the returned file releases the lock.
fn hold_the_lock(temporary: &Temporary) -> File {
    let hidden = temporary.join("sessions/.neuron");
    let lock = File::open(hidden.join(names(&hidden).remove(0))).unwrap();
    lock.lock().unwrap();
    lock
}

/// Polls a write until it waits for the lock.
async fn waits(write: &mut (impl Future<Output = Result<(), StorageError>> + Unpin)) {
    for _ in 0..3 {
        assert!(write.now_or_never().is_none());
        soon(tokio::task::spawn_blocking(|| ())).await.unwrap();
    }
}

/// Waits for work that ends soon. A timeout ends the test if it hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it hangs")
}

/// A write that waits for a lock must not prevent its runtime from shutting down. Otherwise Ctrl-C could not end the
/// process.
#[test]
fn waiting_write_uses_no_thread_of_the_runtime() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let runtime = runtime();
    runtime.block_on(storage.save(&session("first"))).unwrap();
    let lock = hold_the_lock(&temporary);
    runtime.block_on(async {
        let (one, other) = (session("one"), session("other"));
        let (mut one, mut other) = (Box::pin(storage.save(&one)), Box::pin(storage.save(&other)));
        waits(&mut one).await;
        waits(&mut other).await;
        assert_eq!(soon(storage.load("s")).await.unwrap(), soon(storage.load("s")).await.unwrap());
        assert_eq!(soon(storage.list()).await.unwrap().len(), 1);
    });
    // Dropping the runtime must not wait either, although the lock is still held.
    drop(runtime);
    drop(lock);
    let runtime = self::runtime();
    runtime.block_on(soon(storage.save(&session("later")))).unwrap();
    assert_eq!(runtime.block_on(storage.load("s")).unwrap().messages[0].text(), "later");
}

#[test]
fn waiting_writes_run_in_the_order_of_their_calls() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let runtime = runtime();
    runtime.block_on(storage.save(&session("first"))).unwrap();
    let lock = hold_the_lock(&temporary);
    runtime.block_on(async {
        let (one, other) = (session("one"), session("other"));
        let (mut one, mut other) = (Box::pin(storage.save(&one)), Box::pin(storage.save(&other)));
        waits(&mut one).await;
        waits(&mut other).await;
        drop(lock);
        // Writes run in the order of their calls, and not in the order of polling.
        let (other, one) = soon(futures_util::future::join(other, one)).await;
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(storage.load("s").await.unwrap().messages[0].text(), "other");
    });
}

/// Two writes must not happen at the same time, even if the lock file is deleted while one write waits. The test
/// deletes the directory and creates it again.
#[cfg(unix)]
#[test]
fn deleted_lock_file_does_not_permit_a_write() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let runtime = runtime();
    runtime.block_on(storage.save(&session("first"))).unwrap();
    let old = hold_the_lock(&temporary);
    runtime.block_on(async {
        let late = session("late");
        let mut save = Box::pin(storage.save(&late));
        waits(&mut save).await;

        fs::remove_dir_all(temporary.join("sessions")).unwrap();
        soon(temporary.storage().create(&session("new"))).await.unwrap();
        let new = hold_the_lock(&temporary);
        old.unlock().unwrap();
        // Waits until the write has taken the old lock, and then until it has released it because the file was deleted.
        soon(async {
            while old.try_lock().is_ok() {
                old.unlock().unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            while old.try_lock().is_err() {
                assert!(save.as_mut().now_or_never().is_none());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        waits(&mut save).await;
        assert_eq!(storage.load("s").await.unwrap().messages[0].text(), "new");

        drop(new);
        soon(save).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap(), late);
    });
}
