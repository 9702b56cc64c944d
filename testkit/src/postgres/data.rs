//! Makes the fresh data of a server. `initdb` makes a template in the target folder once, and each server gets a
//! copy.

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

/// The number of the user `nobody`, who has no rights, and of their group.
const NOBODY: u32 = if cfg!(target_os = "macos") { u32::MAX - 1 } else { 65534 };

/// Returns the user as whom PostgreSQL runs, if it may not run as the owner of the folder, and gives the folder to
/// that user.
pub(super) fn user(folder: &Path) -> io::Result<Option<u32>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    chown(folder, Some(NOBODY), Some(NOBODY))?;
    Ok(Some(NOBODY))
}

/// Makes `data` in the folder of a server, and returns the password of the user.
pub(super) fn make(postgres: &Path, folder: &Path, user: Option<u32>) -> io::Result<String> {
    // Another version has another template, and so has another build at the same place.
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
            // In the server's folder: PostgreSQL's user may not be able to enter the target folder.
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
    // The folder of the data, like the server's, is closed to other users. The target folder is not.
    fs::rename(&password, folder.join("data/password"))
        .map_err(|error| format!("cannot rename {}: {error}", password.display()))
}

/// Copies a folder into another, with owners and rights, which PostgreSQL checks.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut copy = Command::new("cp");
    copy.arg("-Rp").arg(from).arg(to);
    quietly(copy).map(drop)
}
