//! Tests of attacks on files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use neuron_types::ToolCommand;

use crate::support::{Folder, assert_refused, attempt, build, builder, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn files_outside_cannot_be_accessed() {
    let (inside, outside) = (Folder::new(), Folder::new());
    let secret = outside.file("secret", "hunter2");
    let Some(sandbox) = build(builder(&inside).write(inside.path())) else { return };
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hunter2", "it can be read from here");

    let link = inside.path().join("link");
    symlink(&secret, &link).unwrap();
    let folder_link = inside.path().join("folder");
    symlink(outside.path(), &folder_link).unwrap();
    let up = inside.path().join("..").join(outside.path().file_name().unwrap()).join("secret");
    let through_root = format!("/proc/self/root{}", secret.display());
    let of_ours = format!("/proc/{}/root{}", std::process::id(), secret.display());
    let relative = format!("../{}/secret", outside.path().file_name().unwrap().display());
    for path in [
        text(&secret),
        text(&link),
        text(&folder_link.join("secret")),
        text(&up),
        &relative,
        &through_root,
        &of_ours,
    ] {
        for what in ["read", "write", "append", "truncate"] {
            assert_refused(path, &attempt(&sandbox, what, &[path]).await);
        }
    }
    for path in [text(outside.path()), text(&folder_link), "/", "/etc", "/root", "/proc", "/tmp"] {
        assert_refused(path, &attempt(&sandbox, "list", &[path]).await);
    }
    // A link or a renamed file would be in a folder where the attacker may read.
    let here = inside.path().join("here");
    for what in ["link", "rename"] {
        assert_refused(what, &attempt(&sandbox, what, &[text(&secret), text(&here)]).await);
    }
    // A link that the attacker creates itself is not followed either.
    assert_eq!(attempt(&sandbox, "symlink", &[text(&secret), text(&here)]).await, "did it");
    assert_refused("read", &attempt(&sandbox, "read", &[text(&here)]).await);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hunter2");
}

#[tokio::test]
async fn files_outside_cannot_be_created_moved_or_removed() {
    let (inside, outside) = (Folder::new(), Folder::new());
    let file = outside.file("file", "");
    let own = inside.file("own", "");
    fs::create_dir(outside.path().join("empty")).unwrap();
    let Some(sandbox) = build(builder(&inside).write(inside.path())) else { return };
    let new = outside.path().join("new");
    for (what, args) in [
        ("write", vec![text(&new)]),
        ("make_dir", vec![text(&new)]),
        ("symlink", vec!["/", text(&new)]),
        ("link", vec![text(&own), text(&new)]),
        ("rename", vec![text(&own), text(&new)]),
        ("remove", vec![text(&file)]),
        ("remove_dir", vec![text(&outside.path().join("empty"))]),
        ("write", vec!["/dev/shm/new"]),
        ("write", vec!["/tmp/new"]),
    ] {
        assert_refused(what, &attempt(&sandbox, what, &args).await);
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn readable_files_cannot_be_written_and_writable_files_cannot_be_run() {
    let (inside, read, write) = (Folder::new(), Folder::new(), Folder::new());
    let file = read.file("file", "as it was");
    let own = inside.file("own", "as it was");
    let builder = builder(&inside).read(&file).write(write.path());
    let Some(sandbox) = build(builder) else { return };
    assert_eq!(attempt(&sandbox, "read", &[text(&file)]).await, "did as it was");
    for path in [text(&file), text(&own), text(&inside.path().join("new")), "/usr/new", "/etc/new"]
    {
        for what in ["write", "append", "truncate", "remove"] {
            assert_refused(path, &attempt(&sandbox, what, &[path]).await);
        }
    }
    let program = write.path().join("program");
    fs::copy("/bin/true", &program).unwrap();
    assert_refused("exec", &attempt(&sandbox, "exec", &[text(&program)]).await);
    let error = run(&sandbox, ToolCommand::new(&program)).await.unwrap_err();
    assert!(error.to_string().contains("not where programs may run"), "{error}");
    let socket = write.path().join("socket");
    assert_refused("socket", &attempt(&sandbox, "make_socket_file", &[text(&socket)]).await);
}

/// Landlock does not restrict changes of attributes. With Landlock alone, a program could make a user's files readable
/// for all users.
#[tokio::test]
async fn attributes_of_files_cannot_be_changed() {
    let (inside, outside) = (Folder::new(), Folder::new());
    for file in [inside.file("own", ""), outside.file("file", "")] {
        let before = fs::metadata(&file).unwrap();
        let Some(sandbox) = build(builder(&inside).write(inside.path())) else { return };
        let user = before.uid().to_string();
        for what in ["chmod", "fchmod", "times", "xattr", "chown"] {
            assert_refused(what, &attempt(&sandbox, what, &[text(&file), &user]).await);
        }
        let after = fs::metadata(&file).unwrap();
        assert_eq!((before.mode(), before.ctime_nsec()), (after.mode(), after.ctime_nsec()));
    }
}

/// A path must be opened when the sandbox is built, and not at each call. Otherwise a program could replace it with a
/// link, and the next call would allow the target of the link.
#[tokio::test]
async fn replacement_of_an_allowed_path_is_not_allowed() {
    let (inside, outside) = (Folder::new(), Folder::new());
    let secret = outside.file("secret", "hunter2");
    let data = inside.path().join("data");
    fs::create_dir(&data).unwrap();
    let Some(sandbox) = build(builder(&inside).write(inside.path()).read(&data)) else { return };
    assert_eq!(attempt(&sandbox, "remove_dir", &[text(&data)]).await, "did it");
    let link = [text(outside.path()), text(&data)];
    assert_eq!(attempt(&sandbox, "symlink", &link).await, "did it");
    let through = data.join("secret");
    assert_eq!(fs::read_to_string(&through).unwrap(), fs::read_to_string(secret).unwrap());
    assert_refused("read", &attempt(&sandbox, "read", &[text(&through)]).await);
}
