//! Creates the data folder of a PostgreSQL server. `initdb` creates a template in the target folder once, and each
//! server gets a copy.

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

/// Arguments of `initdb`. `--no-sync` saves time, because the template need not survive a crash of the machine.
const INITDB: [&str; 4] = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"];

/// The user id and the group id of the user `nobody`, who has no permissions.
const NOBODY: u32 = if cfg!(target_os = "macos") { u32::MAX - 1 } else { 65534 };

/// Returns the id of the user that must run PostgreSQL, and makes this user the owner of `folder`.
///
/// Returns `None` if the current user can run PostgreSQL. Only root cannot, and then the user is `nobody`.
pub(super) fn user(postgres: &Path, folder: &Path) -> io::Result<Option<u32>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    // The program may be in a folder that only root can read, so the user's access is tested first.
    let mut trial = Command::new(postgres);
    trial.arg("--version").current_dir("/").uid(NOBODY).gid(NOBODY);
    quietly(trial).map_err(|reason| {
        let text = format!("the user {NOBODY} cannot run PostgreSQL, and root may not: {reason}");
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    chown(folder, Some(NOBODY), Some(NOBODY))?;
    Ok(Some(NOBODY))
}

/// Creates the folder `data` in the folder of a server, and returns the password of the database user.
pub(super) fn make(postgres: &Path, folder: &Path, user: Option<u32>) -> io::Result<String> {
    // A new version, or a new build at the same path, needs a new template.
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
            // `initdb` runs in the server's folder, because PostgreSQL's user may have no access to the target folder.
            initialise(postgres, folder, user)?;
            copy(&folder.join("data"), template)
        },
    )
    .map_err(io::Error::other)?;
    copy(&template.join("data"), folder).map_err(io::Error::other)?;
    password(&template).map_err(io::Error::other)
}

/// Runs `initdb` with a new random password, and stores the password in the new data folder.
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
    // Other users can read the target folder, but not the data folder, so the password is stored in the data folder.
    fs::rename(&password, folder.join("data/password"))
        .map_err(|error| format!("cannot rename {}: {error}", password.display()))
}

/// Copies the folder `from` into the folder `to`. Keeps owners and permissions, because PostgreSQL checks them.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut copy = Command::new("cp");
    copy.arg("-Rp").arg(from).arg(to);
    quietly(copy).map(drop)
}
