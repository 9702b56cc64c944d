//! `cargo xtask faults`: puts deliberate faults into a copy of the engine, one at a time, and lets the
//! model of the loop (`crates/neuron-loop/tests/model`) find them. One that it does not find is a gap
//! in the model.

mod list;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{process, workspace};
use list::{FAULTS, Fault};

/// How many cases the model tries. Most faults show within a hundred, the last within nineteen thousand.
const CASES: &str = "20000";

/// How long the model may take over them without a fault.
const LIMIT: Duration = Duration::from_secs(900);

/// With a fault it may take ten times as long as without, and this at least: one that takes longer goes round in
/// circles, and is found.
const LEAST_LIMIT: Duration = Duration::from_secs(120);

const ENGINE: &str = "crates/neuron-loop";

/// Tries every fault, or those whose names contain the text.
pub(crate) fn check(only: Option<&str>) -> Result<(), String> {
    let folder = workspace::members()?.target_directory.join("faults");
    let copy = Copy::make(&folder)?;
    let (unchanged, took) = copy.try_model(LIMIT)?;
    if let Verdict::Found(line) = unchanged {
        return Err(format!("the model fails without a fault: {line}"));
    }
    let limit = LEAST_LIMIT.max(took * 10);
    let (mut tried, mut missed) = (0, Vec::new());
    for fault in FAULTS.iter().filter(|fault| only.is_none_or(|text| fault.name.contains(text))) {
        let start = Instant::now();
        let changed = fault.changed(&copy.source(fault.file))?;
        let verdict = copy.with(fault.file, &changed, || copy.try_model(limit));
        let (verdict, _took) = verdict.map_err(|reason| format!("{}: {reason}", fault.name))?;
        let seconds = start.elapsed().as_secs_f64();
        match verdict {
            Verdict::Found(line) => println!("{seconds:>5.1} s  found: {}: {line}", fault.name),
            Verdict::Missed => {
                println!("{seconds:>5.1} s  MISSED: {}", fault.name);
                missed.push(fault.name);
            }
        }
        tried += 1;
    }
    println!("{tried} faults, {} found", tried - missed.len());
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("the model does not notice: {}", missed.join("; "))),
    }
}

enum Verdict {
    /// With the first line of what the model says.
    Found(String),
    Missed,
}

impl Fault {
    /// The file with the fault in it.
    fn changed(&self, path: &Path) -> Result<String, String> {
        let text = read(path)?;
        match text.matches(self.find).count() {
            1 => Ok(text.replacen(self.find, self.replace, 1)),
            count => Err(format!(
                "the fault \"{}\" looks for something that occurs {count} times in {}: {:?}",
                self.name, self.file, self.find
            )),
        }
    }
}

/// A workspace with a copy of the engine alone; all that it needs stays where it is.
struct Copy {
    folder: PathBuf,
}

impl Copy {
    fn make(folder: &Path) -> Result<Self, String> {
        let (root, package) = (process::root(), folder.join("neuron-loop"));
        if package.exists() {
            fs::remove_dir_all(&package).map_err(|error| cannot("remove", &package, &error))?;
        }
        for part in ["src", "tests"] {
            copy_folder(&root.join(ENGINE).join(part), &package.join(part))?;
        }
        let crates = root.join("crates").display().to_string();
        let manifest = read(&root.join("Cargo.toml"))?;
        write(&folder.join("Cargo.toml"), &alone(&manifest, &crates))?;
        let manifest = read(&root.join(ENGINE).join("Cargo.toml"))?;
        let manifest = manifest.replace("path = \"../", &format!("path = \"{crates}/"));
        write(&package.join("Cargo.toml"), &manifest)?;
        let lock = read(&root.join("Cargo.lock"))?;
        write(&folder.join("Cargo.lock"), &lock)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn source(&self, file: &str) -> PathBuf {
        self.folder.join("neuron-loop/src").join(file)
    }

    /// Does something while a file is another.
    fn with<T>(
        &self,
        file: &str,
        text: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let path = self.source(file);
        let before = read(&path)?;
        write(&path, text)?;
        let result = work();
        write(&path, &before)?;
        result
    }

    /// Says what the model thinks of the engine as it is, and how long it took to say so.
    fn try_model(&self, limit: Duration) -> Result<(Verdict, Duration), String> {
        let program = self.build()?;
        let output = self.folder.join("output.txt");
        let in_output = |error| cannot("write", &output, &error);
        let file = File::create(&output).map_err(in_output)?;
        let mut model = process::program(program);
        model.env("MODEL_CASES", CASES).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        model.stderr(file.try_clone().map_err(in_output)?).stdout(file);
        let mut child = model.spawn().map_err(|error| process::cannot_start(&model, &error))?;
        let start = Instant::now();
        let verdict = loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => break Verdict::Missed,
                Ok(Some(_)) => {
                    let output = read(&output)?;
                    let line = output.lines().find(|line| line.starts_with("case "));
                    let line = line.unwrap_or("the model fails").chars().take(90).collect();
                    break Verdict::Found(line);
                }
                Ok(None) if start.elapsed() < limit => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None) => {
                    // It may end by itself in between; then there is nothing to kill.
                    child.kill().ok();
                    child.wait().ok();
                    break Verdict::Found("it never ends".into());
                }
                Err(error) => return Err(format!("cannot wait for the model: {error}")),
            }
        };
        Ok((verdict, start.elapsed()))
    }

    /// Builds the model; returns its program.
    fn build(&self) -> Result<PathBuf, String> {
        let mut command = process::cargo(["test", "--quiet", "--offline", "--test", "model"]);
        command.args(["--no-run", "--message-format=json"]).current_dir(&self.folder);
        // Nothing of it is read with a debugger, and it is linked once for each fault.
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        // Whoever does without elsewhere wants it here.
        command.env("CARGO_INCREMENTAL", "1");
        let output = command.output().map_err(|error| process::cannot_start(&command, &error))?;
        let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let text = |message: &Value, pointer: &str| {
            message.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        let program = messages.iter().find_map(|message| text(message, "/executable"));
        if let (true, Some(program)) = (output.status.success(), program) {
            return Ok(program.into());
        }
        let errors = messages.iter().filter_map(|message| text(message, "/message/rendered"));
        let errors: Vec<String> = errors.filter(|text| text.starts_with("error")).collect();
        let other = String::from_utf8_lossy(&output.stderr);
        Err(format!("it does not compile:\n{}{other}", errors.concat()))
    }
}

/// The workspace's manifest with the engine as its only member.
fn alone(manifest: &str, crates: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_in_list = false;
    for line in manifest.lines() {
        // The list of default members stands on lines of its own.
        if is_in_list || line.starts_with("default-members = [") {
            is_in_list = !line.ends_with(']');
            continue;
        }
        lines.push(match line {
            line if line.starts_with("members = ") => "members = [\"neuron-loop\"]".to_owned(),
            line if line.starts_with("exclude = ") => continue,
            line if line.starts_with("neuron-loop = ") => continue,
            line => line.replace("path = \"crates/", &format!("path = \"{crates}/")),
        });
    }
    lines.join("\n") + "\n"
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| cannot("make", to, &error))?;
    let entries = fs::read_dir(from).map_err(|error| cannot("read", from, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| cannot("read", from, &error))?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            copy_folder(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(|error| cannot("copy", &path, &error))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| cannot("read", path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_fits_the_engine_as_it_is() {
        for fault in FAULTS {
            let path = process::root().join(ENGINE).join("src").join(fault.file);
            let changed = fault.changed(&path).unwrap();
            assert_ne!(changed, read(&path).unwrap(), "{}", fault.name);
        }
    }

    #[test]
    fn faults_are_told_apart_by_their_names() {
        let names: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), FAULTS.len());
        assert!(names.len() >= 20);
    }

    #[test]
    fn the_copy_is_a_workspace_of_its_own_beside_the_other_crates() {
        let manifest = "[workspace]\nmembers = [\"a\"]\ndefault-members = [\n    \"c\",\n]\n\
                        exclude = [\"b\"]\n\n[workspace.dependencies]\n\
                        neuron-types = { path = \"crates/neuron-types\" }\n\
                        neuron-loop = { path = \"crates/neuron-loop\" }\n";
        let expected = "[workspace]\nmembers = [\"neuron-loop\"]\n\n[workspace.dependencies]\n\
                        neuron-types = { path = \"/x/crates/neuron-types\" }\n";
        assert_eq!(alone(manifest, "/x/crates"), expected);
    }
}
