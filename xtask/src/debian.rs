//! Programs out of Debian's packages, for machines that have them not installed. Everything lives under
//! `target/`; nothing is installed, and the system's own package lists are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// Runs an unpacked program with the unpacked libraries, from wherever the folder is.
const WRAPPER: &str = r#"#!/bin/sh
root=$(dirname "$0")/root
libraries=
for folder in "$root"/usr/lib/*-linux-gnu* "$root"/lib/*-linux-gnu* "$root"/usr/lib/llvm-*/lib; do
    libraries=$libraries:$folder
done
export LD_LIBRARY_PATH="${libraries#:}"
exec "$root/PROGRAM" "$@"
"#;

/// A folder with programs out of packages.
pub(crate) struct Programs<'a> {
    /// The folder. Beside it another one is made while packages are fetched.
    pub(crate) folder: &'a Path,
    /// What is said before something is fetched.
    pub(crate) announcement: &'a str,
    /// Whether the programs in a folder are there and work.
    pub(crate) verify: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Which packages hold them.
    pub(crate) packages: &'a dyn Fn(&Apt<'_>) -> Result<Vec<String>, String>,
    /// Where they are in the packages. In the folder they have the same names without their folders.
    pub(crate) programs: &'a dyn Fn(&Path) -> Result<Vec<String>, String>,
}

impl Programs<'_> {
    /// Fetches what the folder does not have yet, or what does not work.
    pub(crate) fn provide(&self) -> Result<(), String> {
        if (self.verify)(self.folder).is_ok() {
            return Ok(());
        }
        if !has_apt() {
            return Err("apt cannot fetch it here".to_owned());
        }
        // Nothing half-done gets the final name, so an interrupted download harms no later run.
        let partial = self.folder.with_extension("partial");
        remove(&partial)?;
        self.fetch(&partial)?;
        (self.verify)(&partial)?;
        remove(self.folder)?;
        fs::rename(&partial, self.folder)
            .map_err(|error| format!("cannot rename {}: {error}", partial.display()))
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let root = folder.join("root");
        let lists = folder.join("lists");
        fs::create_dir_all(&root)
            .and_then(|()| fs::create_dir_all(lists.join("partial")))
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;

        println!("{}", self.announcement);
        let settings = folder.join("apt.conf");
        fs::write(&settings, apt_settings(&lists, &folder.join("cache")))
            .map_err(|error| format!("cannot write {}: {error}", settings.display()))?;
        let apt = Apt { folder, settings: &settings };
        process::run(apt.command("apt-get", &["-qq", "update"]))?;
        let packages = (self.packages)(&apt)?;
        let mut arguments = vec!["-qq", "download"];
        arguments.extend(packages.iter().map(String::as_str));
        process::run(apt.command("apt-get", &arguments))?;

        for archive in archives(folder)? {
            let mut unpack = process::program("dpkg");
            unpack.arg("-x").arg(&archive).arg(&root);
            process::run(unpack)?;
            remove(&archive)?;
        }
        remove(&lists)?;
        remove(&folder.join("cache"))?;
        for program in (self.programs)(&root)? {
            wrap(folder, &program)?;
        }
        Ok(())
    }
}

/// Makes a program of the packages one of the folder.
fn wrap(folder: &Path, program: &str) -> Result<(), String> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let wrapper = folder.join(name);
    fs::write(&wrapper, WRAPPER.replace("PROGRAM", program))
        .map_err(|error| format!("cannot write {}: {error}", wrapper.display()))?;
    let mut executable = process::program("chmod");
    executable.arg("+x").arg(&wrapper);
    process::run(executable)
}

/// Apt with lists of our own.
pub(crate) struct Apt<'a> {
    folder: &'a Path,
    settings: &'a Path,
}

impl Apt<'_> {
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = process::program(program);
        command.current_dir(self.folder).env("APT_CONFIG", self.settings).args(args);
        command
    }

    /// What a package needs, and what that needs, as apt prints it.
    pub(crate) fn all_dependencies(&self, package: &str) -> Result<String, String> {
        let mut arguments = DEPENDS.to_vec();
        arguments.extend(["--recurse", package]);
        process::capture(self.command("apt-cache", &arguments))
    }
}

const DEPENDS: [&str; 7] = [
    "depends",
    "--no-recommends",
    "--no-suggests",
    "--no-conflicts",
    "--no-breaks",
    "--no-replaces",
    "--no-enhances",
];

/// Whether this is a Debian-like system.
fn has_apt() -> bool {
    ["apt-get", "apt-cache", "dpkg"].iter().all(|name| {
        process::program(name).arg("--version").output().is_ok_and(|out| out.status.success())
    })
}

/// Lists of our own: the machine's may be missing or old, and only root may renew those.
fn apt_settings(lists: &Path, cache: &Path) -> String {
    let (lists, cache) = (lists.display(), cache.display());
    // Apt's unprivileged user cannot write into our folder.
    format!(
        "Dir::State::lists \"{lists}\";\nDir::Cache \"{cache}\";\n\
         APT::Sandbox::User \"root\";\nAPT::Update::Error-Mode \"any\";\n"
    )
}

fn archives(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        folder.read_dir().map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    Ok(files.filter(|path| path.extension().is_some_and(|ending| ending == "deb")).collect())
}

/// Removes a file or folder of ours, if it is there.
fn remove(path: &Path) -> Result<(), String> {
    let result = if path.is_dir() {
        fs::remove_dir_all(path)
    } else if path.exists() {
        fs::remove_file(path)
    } else {
        Ok(())
    };
    result.map_err(|error| format!("cannot remove {}: {error}", path.display()))
}
