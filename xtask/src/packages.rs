//! The step `packages`, which builds each crate from its package, outside of the workspace.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::workspace::{self, Package};
use crate::{compiler, process};

/// Checks that all published crates compile without the workspace. Packages the crates, unpacks them into an empty
/// folder, and compiles them there with only each other and the registry.
pub(crate) fn check() -> Result<(), String> {
    let workspace = workspace::members()?;
    let folder = workspace.target_directory.join("packages");
    // Remove the files of an earlier run, because they could hide a missing file.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    }
    let mut crates: Vec<&Package> = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.is_in_crates()) {
        if compiler::builds(package)? {
            crates.push(package);
        }
    }
    // `--no-verify` disables cargo's test build, because cargo would build each crate alone.
    let mut package = process::cargo(["package", "--no-verify", "--allow-dirty", "--target-dir"]);
    package.arg(&folder);
    package.args(crates.iter().flat_map(|package| ["--package", &package.name]));
    process::run(package)?;

    let unpacked = folder.join("unpacked");
    fs::create_dir_all(&unpacked).map_err(|error| cannot(&unpacked, &error))?;
    let (mut members, mut patches) = (String::new(), String::new());
    for package in &crates {
        let name = format!("{}-{}", package.name, package.version);
        let mut tar = process::program("tar");
        tar.arg("xzf").arg(folder.join("package").join(format!("{name}.crate")));
        tar.arg("-C").arg(&unpacked);
        process::run(tar)?;
        let _ = writeln!(members, "    \"{name}\",");
        let _ = writeln!(patches, "{} = {{ path = \"{name}\" }}", package.name);
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\n{members}]\n\n[patch.crates-io]\n{patches}"
    );
    let file = unpacked.join("Cargo.toml");
    fs::write(&file, manifest).map_err(|error| cannot(&file, &error))?;
    // The build uses the dependency versions of the workspace. A new release of a dependency must not break this step.
    let lock = unpacked.join("Cargo.lock");
    fs::copy(process::root().join("Cargo.lock"), &lock).map_err(|error| cannot(&lock, &error))?;
    let mut build = process::cargo(["check", "--workspace", "--all-features", "--target-dir"]);
    build.arg(folder.join("build")).current_dir(&unpacked);
    process::run(build)
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("cannot use {}: {error}", path.display())
}
