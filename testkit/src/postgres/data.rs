//! Creates the data of a server. `initdb` creates a template in the target folder once, and each server gets a copy.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::USER;
use crate::command::quietly;
use crate::fetch::{fill_once, fingerprint, target};
use crate::server::{isolate, secret};

/// Arguments of `initdb`. The data of a test need not survive a crash of the machine.
const INITDB: [&str; 4] = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"];

/// The id of the user `nobody`, who has no permissions, and of the group.
const NOBODY: u32 = if cfg!(target_os = "macos") { u32::MAX - 1 } else { 65534 };

/// Returns the user for PostgreSQL if it may not run as the owner of the folder, and makes that user the owner of the
/// folder.
pub(super) fn user(postgres: &Path, folder: &Path) -> io::Result<Option<u32>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    // A folder of root may be closed to other users.
    let mut trial = Command::new(postgres);
    trial.arg("--version").current_dir("/").uid(NOBODY).gid(NOBODY);
    quietly(trial).map_err(|reason| {
        let text = format!("the user {NOBODY} cannot run PostgreSQL, and root may not: {reason}");
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    chown(folder, Some(NOBODY), Some(NOBODY))?;
    Ok(Some(NOBODY))
}

/// Creates `data` in the folder of a server, and returns the password of the user.
pub(super) fn make(postgres: &Path, folder: &Path, user: Option<u32>) -> io::Result<String> {
    // Each version has its own template. So has a new build at the same path.
    let program = fs::metadata(postgres)?;
    let version = (postgres, program.len(), program.mtime(), INITDB, USER, user);
    let template = target().join("testkit").join(format!("postgres-data-{}", fingerprint(version)));
    let password = |template: &Path| {
        fs::read_to_string(template.join("data/password")).map_err(|error| error.to_string())
    };
    fill_once(
        &template,
        |template| password(template).map(drop),
        |template| {
            // In the server's folder, because PostgreSQL's user may have no access to the target folder.
            initialise(postgres, folder, user)?;
            copy(&folder.join("data"), template)
        },
    )
    .map_err(io::Error::other)?;
    copy(&template.join("data"), folder).map_err(io::Error::other)?;
    password(&template).map_err(io::Error::other)
}

fn initialise(postgres: &Path, folder: &Path, user: Option<u32>) -> Result<(), String> {
    let password = folder.join("password");
    fs::write(&password, secret())
        .and_then(|()| chown(&password, user, user))
        .map_err(|error| format!("cannot write {}: {error}", password.display()))?;
    let mut initdb = Command::new(postgres.with_file_name("initdb"));
    isolate(&mut initdb, folder);
    initdb.args(INITDB).args(["--pgdata=data", "--pwfile=password", "--username", USER]);
    if let Some(user) = user {
        initdb.uid(user).gid(user);
    }
    quietly(initdb)?;
    // Like the server's folder, the data folder is closed to other users. The target folder is not.
    fs::rename(&password, folder.join("data/password"))
        .map_err(|error| format!("cannot rename {}: {error}", password.display()))
}

/// Copies a folder into another, with owners and permissions, which PostgreSQL checks.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut copy = Command::new("cp");
    copy.arg("-Rp").arg(from).arg(to);
    quietly(copy).map(drop)
}
