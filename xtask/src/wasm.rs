//! The step `wasm`: type-checks the packages that promise to compile for wasm32. Where the sources
//! of the standard library come from, if rustup has no such target, is in `debian`.

mod debian;

use std::path::Path;
use std::process::Command;

use crate::{means, process, workspace};

const TARGET: &str = "wasm32-unknown-unknown";

/// Checks all packages whose manifest says `[package.metadata.neuron] wasm = true`, with their
/// default features.
///
/// A machine without the means says so and goes on; on CI (`CI=true`) that is a failure.
pub(crate) fn check() -> Result<(), String> {
    let metadata = workspace::members()?;
    let packages: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| package.wants_wasm())
        .map(|package| package.name.as_str())
        .collect();
    if packages.is_empty() {
        return means::not_checked(
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
        Err(reason) => means::not_checked("wasm32", &reason),
    }
}

/// `cargo check` for wasm32 on this machine, without packages; or why there is none.
fn command(target_directory: &Path) -> Result<Command, String> {
    let mut command = process::cargo(["check", "--target", TARGET]);
    // A folder of its own: the compiler may be another, and must not displace the usual build.
    command.env("CARGO_TARGET_DIR", target_directory.join("wasm"));
    if !has_installed_target() {
        let rustc = debian::rustc(target_directory)?;
        // `build-std` is unstable; this variable opens it for a stable compiler.
        command.arg("-Zbuild-std=std,panic_abort").env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
    }
    Ok(command)
}

/// Whether the usual compiler has the target's `core`.
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
