//! Tests of locks, their leases and takeovers, with files and in memory.

use super::*;

const LEASE: Duration = Duration::from_millis(100);

fn places() -> (tempfile::TempDir, [Locks; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let in_files = Locks { folder: Some(folder.path().into()), held: Arc::default() };
    (folder, [in_files, Locks { folder: None, held: Arc::default() }])
}

/// Regression test. Dropping a lock must free the run even if a child process has inherited the open lock file. Between
/// `fork` and `exec`, a child process has all open files of its parent, with their locks.
#[test]
fn dropped_lock_is_free_while_a_child_process_inherits_its_file() {
    let (_folder, [locks, _]) = places();
    let lock = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
    assert!(locks.is_held(7).unwrap());
    // The same as the file that a child process inherits between `fork` and `exec`.
    let inherited = lock.file.as_ref().unwrap().0.try_clone().unwrap();
    drop(lock);
    assert!(!locks.is_held(7).unwrap());
    assert!(locks.acquire(7, DEFAULT_LEASE).unwrap().is_some());
    drop(inherited);
}

#[test]
fn expired_lock_is_taken_over_and_its_drop_keeps_the_new_lock() {
    let (_folder, places) = places();
    for locks in places {
        let hung = locks.acquire(7, LEASE).unwrap().unwrap();
        assert!(locks.acquire(7, LEASE).unwrap().is_none());
        std::thread::sleep(LEASE * 2);
        assert!(!locks.is_held(7).unwrap());
        let taken = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
        assert_eq!((hung.renew(), taken.renew()), (Renewal::Lost, Renewal::InTime));
        drop(hung);
        assert!(locks.is_held(7).unwrap());
        assert!(locks.acquire(7, LEASE).unwrap().is_none());
        drop(taken);
        assert!(!locks.is_held(7).unwrap());
    }
}

#[test]
fn renewed_lock_is_held_for_longer_than_its_lease() {
    let (_folder, places) = places();
    for locks in places {
        let lock = locks.acquire(7, LEASE * 4).unwrap().unwrap();
        for _ in 0..12 {
            std::thread::sleep(LEASE / 2);
            assert_ne!(lock.renew(), Renewal::Lost);
            assert!(locks.is_held(7).unwrap());
            assert!(locks.acquire(7, LEASE).unwrap().is_none());
        }
    }
}

#[test]
fn expired_lock_is_free_and_can_be_renewed() {
    let (_folder, places) = places();
    for locks in places {
        let lock = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
        lock.expire();
        assert!(!locks.is_held(7).unwrap());
        assert_eq!((lock.renew(), lock.renew()), (Renewal::Late, Renewal::InTime));
        assert!(locks.is_held(7).unwrap());
        lock.expire();
        let taken = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
        lock.expire();
        assert_eq!((lock.renew(), taken.renew()), (Renewal::Lost, Renewal::InTime));
        assert!(locks.is_held(7).unwrap());
    }
}

#[cfg(unix)]
#[test]
fn renewal_of_a_lock_with_a_deleted_file_is_lost() {
    let (folder, [locks, _]) = places();
    let lock = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
    assert_eq!(lock.renew(), Renewal::InTime);
    fs::remove_file(path(folder.path(), 7)).unwrap();
    assert_eq!(lock.renew(), Renewal::Lost);
}

#[test]
fn lock_file_without_a_lease_is_held() {
    let (folder, [locks, _]) = places();
    let path = path(folder.path(), 7);
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(24 * 3600)).unwrap();
    assert!(locks.is_held(7).unwrap());
    assert!(locks.acquire(7, LEASE).unwrap().is_none());
}
