//! The step `wasm`, which type-checks the packages that must compile for wasm32. If the target is not installed, the
//! module `debian` provides a compiler that can build the standard library from source.

mod debian;

use std::path::Path;
use std::process::Command;

use crate::{prerequisites, process, workspace};

const TARGET: &str = "wasm32-unknown-unknown";

/// Checks all packages whose manifest has `[package.metadata.neuron] wasm = true`, with their default features.
///
/// If a prerequisite is missing, prints a message and returns `Ok`. If the environment variable `CI` is `true`, returns
/// an error.
pub(crate) fn check() -> Result<(), String> {
    let metadata = workspace::members()?;
    let packages: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| package.wants_wasm())
        .map(|package| package.name.as_str())
        .collect();
    if packages.is_empty() {
        return prerequisites::not_checked(
            "wasm32",
            "no package sets `wasm = true` in [package.metadata.neuron]",
        );
    }
    match command(&metadata.target_directory) {
        Ok(mut command) => {
            packages.iter().for_each(|package| {
                command.args(["-p", package]);
            });
            process::run(command)
        }
        Err(reason) => prerequisites::not_checked("wasm32", &reason),
    }
}

/// Returns a `cargo check` command for wasm32, without the packages to check. Returns an error if this machine has no
/// suitable compiler.
fn command(target_directory: &Path) -> Result<Command, String> {
    let mut command = process::cargo(["check", "--target", TARGET]);
    // The build has a separate folder, because the other compiler version would invalidate the usual build.
    command.env("CARGO_TARGET_DIR", target_directory.join("wasm"));
    if !has_installed_target() {
        let rustc = debian::rustc(target_directory)?;
        // `build-std` is unstable. `RUSTC_BOOTSTRAP` enables unstable features in a stable compiler.
        command.arg("-Zbuild-std=std,panic_abort").env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
    }
    Ok(command)
}

/// Returns `true` if the default compiler has the `core` library for wasm32.
fn has_installed_target() -> bool {
    let mut command = process::rustc();
    command.args(["--print", "target-libdir", "--target", TARGET]);
    let folder = process::quietly(command);
    let files = folder.ok().and_then(|folder| Path::new(&folder).read_dir().ok());
    files.into_iter().flatten().flatten().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libcore") && name.ends_with(".rlib")
    })
}
