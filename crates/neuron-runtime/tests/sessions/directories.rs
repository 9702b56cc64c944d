//! Directories as they should not be.
#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use neuron_runtime::{FileSessionStorage, Session, SessionStorage};
use neuron_types::{Message, StorageError};

use crate::temporary::{Temporary, names};

fn session(id: &str) -> Session {
    Session::new(id, ".".into())
}

/// Checks that an error is the file system's and names a path.
#[track_caller]
fn named(error: &StorageError, path: &std::path::Path) {
    assert!(matches!(error, StorageError::Io(_)), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_file_in_the_place_of_the_directory() {
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
async fn a_file_above_the_directory() {
    let temporary = Temporary::new();
    std::fs::write(temporary.join("file"), "a file").unwrap();
    let storage = FileSessionStorage::new(temporary.join("file/sessions"));
    named(&storage.save(&session("s")).await.unwrap_err(), &temporary.join("file/sessions"));
}

#[tokio::test]
async fn a_link_to_the_directory() {
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
async fn a_link_that_leads_nowhere() {
    let temporary = Temporary::new();
    let path = temporary.join("sessions");
    symlink(temporary.join("nowhere"), &path).unwrap();
    let storage = temporary.storage();
    named(&storage.save(&session("s")).await.unwrap_err(), &path);
    assert!(storage.list().await.unwrap().is_empty());
    assert_eq!(names(temporary.path()), ["sessions"]);
}

/// Links in the place of files are replaced, and what they lead to is not written.
#[tokio::test]
async fn links_do_not_lead_writes_out_of_the_directory() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let outside = temporary.join("outside");
    std::fs::copy(temporary.file("s"), &outside).unwrap();
    let before = std::fs::read(&outside).unwrap();
    std::fs::remove_file(temporary.file("s")).unwrap();
    symlink(&outside, temporary.file("s")).unwrap();
    // What a killed process may have left, or somebody else.
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
async fn what_a_killed_process_left_goes_with_the_next_save() {
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

/// Who may read a session stays as it was decided.
#[tokio::test]
async fn permissions_stay() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    storage.save(&session("s")).await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A file that may not grow beyond some size is like a disk that is full.
#[tokio::test]
async fn a_full_disk() {
    const PLACE: &str = "NEURON_FULL_DISK";
    if let Some(place) = std::env::var_os(PLACE) {
        return fill(&FileSessionStorage::new(place.into())).await;
    }
    let temporary = Temporary::new();
    // In units of 512 or 1024 bytes; the signal that would end the process is ignored.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["directories::a_full_disk", "--exact", "--nocapture"])
        .env(PLACE, temporary.join("sessions"))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    // It was really there.
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

/// The kernel refuses every write below a directory of its own, whoever asks.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_cannot_be_written() {
    let storage = FileSessionStorage::new("/proc/self/sessions".into());
    named(&storage.save(&session("s")).await.unwrap_err(), "/proc/self/sessions".as_ref());
    assert!(storage.list().await.unwrap().is_empty());
}

/// An ordinary user may not write there. For root there is no such directory.
#[tokio::test]
async fn a_directory_that_is_read_only() {
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
    // Reading needs no lock.
    assert_eq!(storage.load("s").await.unwrap().id, "s");
    assert_eq!(storage.list().await.unwrap().len(), 1);
    std::fs::set_permissions(temporary.join("sessions"), PermissionsExt::from_mode(0o755)).unwrap();
}
