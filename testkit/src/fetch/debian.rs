//! Unpacks packages of Debian into a folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::quietly;

/// Returns an apt configuration with own folders for package lists and downloads. The machine's lists may be old or
/// missing, and only root can update them.
#[must_use]
pub fn apt_settings(lists: &Path, cache: &Path) -> String {
    let (lists, cache) = (lists.display(), cache.display());
    // By default apt downloads as an unprivileged user, who cannot write into the folder.
    format!(
        "Dir::State::lists \"{lists}\";\nDir::Cache \"{cache}\";\n\
         APT::Sandbox::User \"root\";\nAPT::Update::Error-Mode \"any\";\n"
    )
}

/// Downloads packages with apt, and unpacks them into `folder`. No script of a package runs, and the system is not
/// changed. The version is that of the machine's release, and apt checks the signatures.
pub(super) fn install(packages: &[&str], folder: &Path) -> Result<(), String> {
    let in_folder = |error| format!("cannot write in {}: {error}", folder.display());
    let (lists, cache) = (folder.join("lists"), folder.join("cache"));
    let settings = folder.join("apt.conf");
    fs::create_dir_all(lists.join("partial")).map_err(in_folder)?;
    fs::write(&settings, apt_settings(&lists, &cache)).map_err(in_folder)?;
    for args in [&["update"] as &[&str], &[&["download"], packages].concat()] {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").args(args).current_dir(folder).env("APT_CONFIG", &settings);
        quietly(apt)?;
    }
    for entry in fs::read_dir(folder).map_err(in_folder)?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = Command::new("dpkg");
            unpack.arg("-x").arg(&archive).arg(folder);
            quietly(unpack)?;
            fs::remove_file(&archive).map_err(in_folder)?;
        }
    }
    // Apt may have created only one of the two folders.
    for leftover in [lists, cache].iter().filter(|leftover| leftover.exists()) {
        fs::remove_dir_all(leftover).map_err(in_folder)?;
    }
    fs::remove_file(settings).map_err(in_folder)
}
