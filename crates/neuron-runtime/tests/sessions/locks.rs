//! Locks that others hold and do not let go of, or that are deleted while somebody waits for them.

use std::fs::{self, File};
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use neuron_runtime::{Session, SessionStorage, VersionedSessionStorage};
use neuron_types::{Message, StorageError};
use tokio::runtime::{Builder, Runtime};

use crate::temporary::{Temporary, names};

/// A runtime whose only thread for blocking work does one thing after the other.
fn runtime() -> Runtime {
    Builder::new_current_thread().max_blocking_threads(1).enable_time().build().unwrap()
}

fn session(text: &str) -> Session {
    let mut session = Session::new("s", ".".into());
    session.messages = vec![Message::user(text)];
    session
}

/// Holds the only lock that there is, as another process would.
fn hold_the_lock(temporary: &Temporary) -> File {
    let hidden = temporary.join("sessions/.neuron");
    let lock = File::open(hidden.join(names(&hidden).remove(0))).unwrap();
    lock.lock().unwrap();
    lock
}

/// Lets a write come as far as it can.
async fn waits(write: &mut (impl Future<Output = Result<(), StorageError>> + Unpin)) {
    for _ in 0..3 {
        assert!(write.now_or_never().is_none());
        soon(tokio::task::spawn_blocking(|| ())).await.unwrap();
    }
}

/// Nothing here waits for this time to pass: it ends a test that hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it hangs")
}

/// Ctrl-C did not end a process that waited for one which stood still: the runtime waited too.
#[test]
fn who_waits_takes_no_thread_of_the_runtime() {
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
    // Neither does this wait, while the lock is held.
    drop(runtime);
    drop(lock);
    let runtime = self::runtime();
    runtime.block_on(soon(storage.save(&session("later")))).unwrap();
    assert_eq!(runtime.block_on(storage.load("s")).unwrap().messages[0].text(), "later");
}

#[test]
fn who_has_waited_writes() {
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
        // In the order in which they asked, whoever is polled first.
        let (other, one) = soon(futures_util::future::join(other, one)).await;
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(storage.load("s").await.unwrap().messages[0].text(), "other");
    });
}

/// The directory was deleted while a write waited, and made again: whoever held the old lock then wrote
/// at the same time as who held the new one.
#[cfg(unix)]
#[test]
fn a_lock_that_was_deleted_is_worth_nothing() {
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
        // Until who waited has the old one, and until it has let go of it because that is no lock any more.
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
