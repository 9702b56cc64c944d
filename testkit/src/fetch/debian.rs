//! Unpacks packages of Debian into a folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::quietly;

/// Downloads packages with apt, and unpacks them into `folder`. No script of a package runs, and the system is not
/// changed. The version is that of the machine's release, and apt checks the signatures.
pub(super) fn install(packages: &[&str], folder: &Path) -> Result<(), String> {
    let mut download = Command::new("apt-get");
    download.args(["-qq", "download"]).args(packages).current_dir(folder);
    // The default is a user who cannot write into the folder.
    download.args(["-o", "APT::Sandbox::User=root"]);
    quietly(download)?;
    let in_folder = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(in_folder)?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = Command::new("dpkg");
            unpack.arg("-x").arg(&archive).arg(folder);
            quietly(unpack)?;
            fs::remove_file(&archive).map_err(in_folder)?;
        }
    }
    Ok(())
}
