//! Locks, their leases and takeovers, in files and in memory.

use super::*;

const LEASE: Duration = Duration::from_millis(100);

fn places() -> (tempfile::TempDir, [Locks; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let in_files = Locks { folder: Some(folder.path().into()), held: Arc::default() };
    (folder, [in_files, Locks { folder: None, held: Arc::default() }])
}

/// A run that ended could not be opened again at once if a tool of another run started a program at this moment.
/// The new process had all our files, including the locks, until its program began.
#[test]
fn a_lock_ends_with_its_holder_though_a_process_that_starts_has_the_file() {
    let (_folder, [locks, _]) = places();
    let lock = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
    assert!(locks.is_held(7).unwrap());
    // As a process has it between its start and that of its program.
    let inherited = lock.file.as_ref().unwrap().0.try_clone().unwrap();
    drop(lock);
    assert!(!locks.is_held(7).unwrap());
    assert!(locks.acquire(7, DEFAULT_LEASE).unwrap().is_some());
    drop(inherited);
}

#[test]
fn lock_with_expired_lease_is_taken_over_and_its_drop_frees_nothing() {
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
fn lock_that_is_renewed_is_held_for_longer_than_its_lease() {
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
fn lease_that_its_holder_lets_expire_is_free_and_can_be_taken_back() {
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
fn lock_whose_file_was_deleted_is_not_renewed() {
    let (folder, [locks, _]) = places();
    let lock = locks.acquire(7, DEFAULT_LEASE).unwrap().unwrap();
    assert_eq!(lock.renew(), Renewal::InTime);
    fs::remove_file(path(folder.path(), 7)).unwrap();
    assert_eq!(lock.renew(), Renewal::Lost);
}

#[test]
fn lock_of_an_older_release_has_no_lease_and_is_held() {
    let (folder, [locks, _]) = places();
    let path = path(folder.path(), 7);
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(24 * 3600)).unwrap();
    assert!(locks.is_held(7).unwrap());
    assert!(locks.acquire(7, LEASE).unwrap().is_none());
}
