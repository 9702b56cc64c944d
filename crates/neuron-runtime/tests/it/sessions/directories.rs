//! Tests of unusable directories, links, permissions and full disks.
#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use neuron_runtime::{FileSessionStorage, Session, SessionStorage};
use neuron_types::{Message, StorageError};

use crate::sessions::temporary::{Temporary, names};

fn session(id: &str) -> Session {
    Session::new(id, ".".into())
}

/// Checks that an error is an I/O error that names a path.
#[track_caller]
fn named(error: &StorageError, path: &Path) {
    assert!(matches!(error, StorageError::Io(_)), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn file_instead_of_the_directory_is_an_error() {
    let temporary = Temporary::new();
    let path = temporary.join("sessions");
    std::fs::write(&path, "a file").unwrap();
    let storage = temporary.storage();
    named(&storage.save(&session("s")).await.unwrap_err(), &path);
    named(&storage.load("s").await.unwrap_err(), &path);
    named(&storage.delete("s").await.unwrap_err(), &path);
    named(&storage.list().await.unwrap_err(), &path);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

#[tokio::test]
async fn file_above_the_directory_is_an_error() {
    let temporary = Temporary::new();
    std::fs::write(temporary.join("file"), "a file").unwrap();
    let storage = FileSessionStorage::new(temporary.join("file/sessions"));
    named(&storage.save(&session("s")).await.unwrap_err(), &temporary.join("file/sessions"));
}

#[tokio::test]
async fn link_to_the_directory_is_followed() {
    let temporary = Temporary::new();
    std::fs::create_dir(temporary.join("elsewhere")).unwrap();
    symlink(temporary.join("elsewhere"), temporary.join("sessions")).unwrap();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    assert!(temporary.join("elsewhere/s.json").exists());
    assert_eq!(storage.list().await.unwrap().len(), 1);
    storage.delete("s").await.unwrap();
}

#[tokio::test]
async fn dangling_link_instead_of_the_directory_is_an_error() {
    let temporary = Temporary::new();
    let path = temporary.join("sessions");
    symlink(temporary.join("nowhere"), &path).unwrap();
    let storage = temporary.storage();
    named(&storage.save(&session("s")).await.unwrap_err(), &path);
    assert!(storage.list().await.unwrap().is_empty());
    assert_eq!(names(temporary.path()), ["sessions"]);
}

/// A link in place of a file is replaced, and its target is not written.
#[tokio::test]
async fn writes_do_not_follow_links_out_of_the_directory() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let outside = temporary.join("outside");
    std::fs::copy(temporary.file("s"), &outside).unwrap();
    let before = std::fs::read(&outside).unwrap();
    std::fs::remove_file(temporary.file("s")).unwrap();
    symlink(&outside, temporary.file("s")).unwrap();
    // Links in place of unfinished files, which an attacker could create.
    for number in 0..64 {
        let unfinished = temporary.join(&format!("sessions/.neuron/{number:02}.unfinished"));
        symlink(&outside, unfinished).unwrap();
    }
    let mut changed = session("s");
    changed.messages.push(Message::user("more"));
    storage.save(&changed).await.unwrap();
    assert_eq!(std::fs::read(&outside).unwrap(), before);
    assert!(!temporary.file("s").is_symlink());
    assert_eq!(storage.load("s").await.unwrap(), changed);
}

#[tokio::test]
async fn next_save_removes_the_unfinished_file_of_a_stopped_process() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let lock = names(&temporary.join("sessions/.neuron")).remove(0);
    let unfinished = temporary.join("sessions/.neuron").join(lock.replace(".lock", ".unfinished"));
    std::fs::write(&unfinished, "half a sess").unwrap();
    storage.save(&session("s")).await.unwrap();
    assert!(!unfinished.exists());
    assert_eq!(storage.list().await.unwrap().len(), 1);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Regression test. With the usual umask, every user could read the sessions.
#[tokio::test]
async fn new_files_and_directories_are_private() {
    let temporary = Temporary::new();
    let above = temporary.join("above");
    let storage = FileSessionStorage::new(above.join("sessions"));
    let mut stored = session("s");
    for _ in 0..2 {
        storage.save(&stored).await.unwrap();
        assert_eq!(mode(&above), 0o700);
        for name in names(&above) {
            let path = above.join(&name);
            assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{name}");
        }
        stored.messages.push(Message::user("more"));
    }
}

/// The permissions of existing files and directories do not change.
#[tokio::test]
async fn save_keeps_the_permissions_of_the_file_and_its_directory() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let (file, directory) = (temporary.file("s"), temporary.join("sessions"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    storage.save(&session("s")).await.unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    storage.save(&session("s")).await.unwrap();
    assert_eq!((mode(&file), mode(&directory)), (0o640, 0o755));
}

/// A limit on the size of files simulates a full disk.
#[tokio::test]
async fn full_disk_keeps_the_old_session() {
    const PLACE: &str = "NEURON_FULL_DISK";
    if let Some(place) = std::env::var_os(PLACE) {
        return fill(&FileSessionStorage::new(place.into())).await;
    }
    let temporary = Temporary::new();
    // `ulimit -f` counts blocks of 512 or 1024 bytes. The signal `XFSZ` is ignored, because it would kill the process.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["sessions::directories::full_disk_keeps_the_old_session", "--exact", "--nocapture"])
        .env(PLACE, temporary.join("sessions"))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    // The child process has stored its session.
    assert_eq!(temporary.storage().list().await.unwrap().len(), 1);
}

async fn fill(storage: &FileSessionStorage) {
    let small = session("s");
    storage.save(&small).await.unwrap();
    let mut large = small.clone();
    large.messages.push(Message::user("x".repeat(1 << 20)));
    let error = storage.save(&large).await.unwrap_err();
    named(&error, &storage.directory().join("s.json"));
    assert_eq!(storage.load("s").await.unwrap(), small);
    let names = names(storage.directory());
    assert!(names.iter().all(|name| !name.contains("unfinished")), "{names:?}");
    storage.save(&small).await.unwrap();
}

/// The kernel rejects every write below `/proc`, even by root.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn write_below_proc_is_an_error() {
    let storage = FileSessionStorage::new("/proc/self/sessions".into());
    named(&storage.save(&session("s")).await.unwrap_err(), "/proc/self/sessions".as_ref());
    assert!(storage.list().await.unwrap().is_empty());
}

/// An ordinary user may not write to the directory. Root may, so the test then checks only reads.
#[tokio::test]
async fn read_only_directory_allows_only_reads() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let hidden = temporary.join("sessions/.neuron");
    std::fs::remove_dir_all(&hidden).unwrap();
    std::fs::set_permissions(temporary.join("sessions"), PermissionsExt::from_mode(0o555)).unwrap();
    let is_root = std::fs::create_dir(temporary.join("sessions/probe")).is_ok();
    if !is_root {
        named(&storage.save(&session("s")).await.unwrap_err(), &temporary.join("sessions"));
        named(&storage.delete("s").await.unwrap_err(), &temporary.join("sessions"));
    }
    // Reads need no lock file.
    assert_eq!(storage.load("s").await.unwrap().id, "s");
    assert_eq!(storage.list().await.unwrap().len(), 1);
    std::fs::set_permissions(temporary.join("sessions"), PermissionsExt::from_mode(0o755)).unwrap();
}
