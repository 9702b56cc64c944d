//! The step `packages`, which builds and tests each crate from its package, outside of the workspace.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::workspace::{self, Package};
use crate::{compiler, fetch, process, tools};

/// Checks that all published crates work without the workspace. Packages the crates, unpacks them into an empty folder,
/// and runs their tests there with only each other and the registry.
pub(crate) fn check() -> Result<(), String> {
    let workspace = workspace::members()?;
    let folder = workspace.target_directory.join("packages");
    // Remove the files of an earlier run, because they could hide a missing file. The compiled crates may stay.
    for old in ["package", "unpacked"].map(|name| folder.join(name)) {
        if old.exists() {
            fs::remove_dir_all(&old).map_err(|error| cannot(&old, &error))?;
        }
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
        // `m`: the files get the present time. With the time in the archive, cargo would take compiled crates of an
        // earlier run for current.
        tar.arg("xzmf").arg(folder.join("package").join(format!("{name}.crate")));
        tar.arg("-C").arg(&unpacked);
        process::run(tar)?;
        restore_test_dependencies(package, &unpacked.join(&name), &crates)?;
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
    let config = fs::read_to_string(process::root().join(".config/nextest.toml"))
        .map_err(|error| cannot(Path::new(".config/nextest.toml"), &error))?;
    // nextest rejects a filter that names no package.
    let is_absent = |package: &&Package| !crates.iter().any(|here| here.name == package.name);
    let config = workspace.packages.iter().filter(is_absent).fold(config, |config, package| {
        config.replace(&format!("package({})", package.name), "none()")
    });
    let file = unpacked.join(".config/nextest.toml");
    fs::create_dir_all(unpacked.join(".config"))
        .and_then(|()| fs::write(&file, config))
        .map_err(|error| cannot(&file, &error))?;

    let build_folder = folder.join("build");
    let mut tests = process::cargo(["nextest", "run", "--workspace", "--all-features"]);
    tools::NEXTEST.add_to(&mut tests)?;
    tests.arg("--no-fail-fast");
    tests.arg("--target-dir").arg(&build_folder).current_dir(&unpacked);
    fetch::run(tests)?;
    let mut doctests =
        process::cargo(["test", "--workspace", "--all-features", "--doc", "--no-fail-fast"]);
    doctests.arg("--target-dir").arg(&build_folder).current_dir(&unpacked);
    fetch::run(doctests)
}

/// Adds the dependencies of the tests that cargo removes from a package, because they have a path and no version. They
/// have no version, because the crates need each other in their tests, and registries accept no cycles.
///
/// A dependency on a crate for users becomes a dependency on its unpacked package.
fn restore_test_dependencies(
    package: &Package,
    unpacked: &Path,
    crates: &[&Package],
) -> Result<(), String> {
    let file = unpacked.join("Cargo.toml");
    let mut manifest = fs::read_to_string(&file).map_err(|error| cannot(&file, &error))?;
    for entry in package.dependencies.iter().filter(|entry| entry.is_only_a_path()) {
        let source = match crates.iter().find(|package| package.name == entry.name) {
            // `[patch.crates-io]` replaces this version by the unpacked package.
            Some(own) => format!("version = \"{}\"", own.version),
            None => format!("path = \"{}\"", entry.path.clone().unwrap_or_default().display()),
        };
        let target = entry.target.as_ref().map(|target| format!("target.'{target}'."));
        let _ = writeln!(
            manifest,
            "\n[{}dev-dependencies.{}]\n{source}\nfeatures = {:?}\ndefault-features = {}",
            target.unwrap_or_default(),
            entry.name,
            entry.features,
            entry.uses_default_features
        );
    }
    fs::write(&file, manifest).map_err(|error| cannot(&file, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("cannot use {}: {error}", path.display())
}
