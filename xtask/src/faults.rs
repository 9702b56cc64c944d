//! The command `cargo xtask faults`, which checks that tests of the agent loop find deliberate faults in its source.
//!
//! The command puts one fault at a time into a copy of the source. The test `crates/neuron-loop/tests/it/model`, which
//! runs random cases, must then fail. If this test does not cover the faulty code, the list of faults names another
//! test that must fail.
//!
//! The faults in our list are mistakes that a person would make. We do not use cargo-mutants, because it generates a
//! mutant for every function and cannot use a given list.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{changes, process, workspace};

/// Number of random cases that the test `model` of the agent loop runs for each fault. Most faults are found within 100
/// cases, and the fault that takes longest within 19,000.
const CASES: &str = "20000";

/// Time limit for the test `model` on the source without a fault.
const LIMIT: Duration = Duration::from_secs(900);

/// Minimum time limit for a test of the source with a fault. The actual limit is ten times the duration of the test
/// `model` without a fault, if that is longer. A test that exceeds the limit counts as an endless loop.
const MINIMUM_LIMIT: Duration = Duration::from_secs(120);

/// Maximum number of faults in a sample that concern changed code. Of all other faults, the sample contains every 16th.
const SAMPLE: usize = 16;

const LOOP: &str = "crates/neuron-loop/src/";

const MODEL: &str = "crates/neuron-loop/tests/it/model/";

const LIST: &str = "crates/neuron-loop/tests/it/model/faults.txt";

/// The test of the model.
const TEST: &str = "model::loop_matches_the_reference_under_any_interruption";

/// Selects the faults in the list `faults.txt` that a run of `cargo xtask faults` tries.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    All,
    /// The faults whose names contain this text.
    Named(&'a str),
    /// Up to [`SAMPLE`] faults that the current changes affect, and every 16th of the other faults.
    Sample,
}

/// Puts one selected fault after another into a copy of the source, and runs the test that must then fail. Returns an
/// error if the test succeeds for any fault.
pub(crate) fn check(selection: Selection<'_>) -> Result<(), String> {
    let list = read(&process::root().join(LIST))?;
    let faults = select(parse(&list)?, selection)?;
    let copy = Copy::make(workspace::members()?.target_directory.join("faults"))?;
    copy.build()?;
    let start = Instant::now();
    if let Verdict::Found(line) = copy.try_test(None, LIMIT)? {
        return Err(format!("the model fails without a fault: {line}"));
    }
    let limit = MINIMUM_LIMIT.max(start.elapsed() * 10);
    let mut missed = Vec::new();
    for fault in &faults {
        let start = Instant::now();
        let path = copy.folder.join(fault.path());
        let original = read(&path)?;
        write(&path, &fault.applied_to(&original)?)?;
        let verdict = copy.try_test(fault.test, limit);
        write(&path, &original)?;
        let verdict = verdict.map_err(|reason| format!("{}: {reason}", fault.name))?;
        let seconds = start.elapsed().as_secs_f64();
        match verdict {
            Verdict::Found(line) => println!("{seconds:>5.1} s  found: {}: {line}", fault.name),
            Verdict::Missed => {
                println!("{seconds:>5.1} s  MISSED: {}", fault.name);
                missed.push(fault.name);
            }
        }
    }
    println!("{} faults, {} found", faults.len(), faults.len() - missed.len());
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("no test notices: {}", missed.join("; "))),
    }
}

/// A deliberate fault, parsed from an entry of the list `faults.txt`.
#[derive(Debug)]
struct Fault<'a> {
    /// The whole entry of the fault in the list.
    block: &'a str,
    name: &'a str,
    file: &'a str,
    /// Name of the test in `tests/it` that must fail because of the fault. `None` means that the test `model` must
    /// fail.
    test: Option<&'a str>,
    find: String,
    replace: String,
}

/// Parses `list`, the content of the file `faults.txt`. The first lines of this file describe its format.
fn parse(list: &str) -> Result<Vec<Fault<'_>>, String> {
    let blocks = list.split("\n== ").skip(1);
    let faults = blocks.map(|block| {
        let mut lines = block.lines();
        let name = lines.next().unwrap_or_default();
        let file = lines.next().unwrap_or_default();
        let part = |sign| {
            let lines = block.lines().skip(2).filter_map(|line| line.strip_prefix(sign));
            lines.collect::<Vec<_>>().join("\n")
        };
        let test = lines.next().and_then(|line| line.strip_prefix("test: "));
        let fault = Fault { block, name, file, test, find: part('-'), replace: part('+') };
        match fault.find.is_empty() || !file.ends_with(".rs") {
            true => Err(format!("{LIST}: the fault `{name}` lacks a file or a text to find")),
            false => Ok(fault),
        }
    });
    faults.collect()
}

fn select<'a>(
    mut faults: Vec<Fault<'a>>,
    selection: Selection<'_>,
) -> Result<Vec<Fault<'a>>, String> {
    match selection {
        Selection::All => {}
        Selection::Named(text) => faults.retain(|fault| fault.name.contains(text)),
        Selection::Sample => {
            let changes = changes::since(None)?;
            let is_model = |file: &String| file.starts_with(MODEL) && file != LIST;
            let is_model_changed = changes.files.iter().any(is_model);
            let known = changes.text_before(LIST);
            let is_affected = |fault: &Fault<'_>| {
                is_model_changed
                    || changes.files.contains(&fault.path())
                    || !known.contains(fault.block.trim_end())
            };
            let (affected, others): (Vec<_>, Vec<_>) = faults.into_iter().partition(is_affected);
            let count = affected.len();
            let mut sample = every(affected, count.div_ceil(SAMPLE), 0);
            println!("the change affects {count} faults, of which {} are tried", sample.len());
            // The first digit of the commit's hash is the offset of the sample, so that different commits try different
            // faults.
            let digit =
                changes::commit("HEAD")?.chars().next().and_then(|first| first.to_digit(16));
            sample.extend(every(others, SAMPLE, digit.map_or(0, |digit| digit as usize)));
            faults = sample;
        }
    }
    Ok(faults)
}

/// Returns every `step`-th fault, beginning with the fault at the index `first`.
fn every(faults: Vec<Fault<'_>>, step: usize, first: usize) -> Vec<Fault<'_>> {
    faults.into_iter().skip(first).step_by(step.max(1)).collect()
}

impl Fault<'_> {
    /// Returns the path of the fault's source file, relative to the workspace's root.
    fn path(&self) -> String {
        match self.file.starts_with("crates/") {
            true => self.file.to_owned(),
            false => format!("{LOOP}{}", self.file),
        }
    }

    /// Puts the fault into `text`, the content of the source file. Returns an error if the text that the fault replaces
    /// does not occur exactly once.
    fn applied_to(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            count => Err(format!(
                "the fault `{}` looks for a text that occurs {count} times in {}: {:?}",
                self.name, self.file, self.find
            )),
        }
    }
}

enum Verdict {
    /// The test failed or did not end, so it found the fault. The field contains a line of the output, the name of the
    /// test, or a short reason.
    Found(String),
    Missed,
}

/// A copy of the workspace with its own target folder. The faults are put into this copy.
struct Copy {
    folder: PathBuf,
    /// The locked file. Without the lock, two processes could put their faults into the same files.
    _lock: File,
}

impl Copy {
    /// Creates or updates the copy in `folder`. Only files that differ are written, so that cargo rebuilds only these.
    fn make(folder: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&folder).map_err(|error| cannot("create", &folder, &error))?;
        let lock = folder.join("lock");
        let lock = File::create(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| cannot("lock", &lock, &error))?;
        let copy = Self { folder, _lock: lock };
        let (files, listing) = (changes::files()?, copy.folder.join("files.txt"));
        let last = fs::read_to_string(&listing).unwrap_or_default();
        let is_gone = |file: &&str| !file.is_empty() && files.iter().all(|other| other != file);
        for gone in last.split('\0').filter(is_gone) {
            copy.remove(gone)?;
        }
        for file in &files {
            let (from, to) = (process::root().join(file), copy.folder.join(file));
            let bytes = fs::read(&from).map_err(|error| cannot("read", &from, &error))?;
            if fs::read(&to).is_ok_and(|present| present == bytes) {
                continue;
            }
            let parent = to.parent().unwrap_or(&to);
            fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
            fs::write(&to, bytes).map_err(|error| cannot("write", &to, &error))?;
        }
        write(&listing, &files.join("\0"))?;
        Ok(copy)
    }

    /// Removes a file that the workspace no longer has from the copy, and also the folders that become empty.
    fn remove(&self, file: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        if path.is_file() {
            fs::remove_file(&path).map_err(|error| cannot("remove", &path, &error))?;
        }
        let folders = path.ancestors().skip(1).take_while(|folder| *folder != self.folder);
        // `remove_dir` fails for a folder that is not empty, so the error is ignored.
        folders.for_each(|folder| drop(fs::remove_dir(folder)));
        Ok(())
    }

    /// Builds and runs a test of `tests/it` in the copy. If `test` is `None`, runs the test `model`.
    fn try_test(&self, test: Option<&str>, limit: Duration) -> Result<Verdict, String> {
        let mut program = process::program(self.build()?);
        program.env("MODEL_CASES", CASES).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        program.args(["--exact", test.unwrap_or(TEST)]);
        match process::run_within(program, &self.folder.join("output.txt"), limit)? {
            process::Ending::Success(_) => Ok(Verdict::Missed),
            process::Ending::Failure(_, output) => {
                let line = output.lines().find(|line| line.starts_with("case "));
                let line = line.or(test).unwrap_or("the model fails").chars().take(90).collect();
                Ok(Verdict::Found(line))
            }
            process::Ending::TimedOut => Ok(Verdict::Found("it does not end".into())),
        }
    }

    /// Builds the tests of the crate `neuron-loop`, and returns the path of the test program.
    fn build(&self) -> Result<PathBuf, String> {
        let mut command =
            process::cargo(["test", "--quiet", "--offline", "--package", "neuron-loop"]);
        command.args(["--test", "it", "--no-run"]);
        command.arg("--message-format=json-render-diagnostics");
        command.current_dir(&self.folder);
        // Debug information makes linking slow, and the program is linked once for each fault.
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "1");
        let output = command.output().map_err(|error| process::cannot_start(&command, &error))?;
        let messages = String::from_utf8_lossy(&output.stdout);
        match process::programs(&messages).next() {
            Some((_, program)) if output.status.success() => Ok(program),
            _ => {
                let reason = String::from_utf8_lossy(&output.stderr);
                Err(format!("it does not compile:\n{reason}"))
            }
        }
    }
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
    fn every_fault_fits_the_loop_as_it_is() {
        let list = read(&process::root().join(LIST)).unwrap();
        let faults = parse(&list).unwrap();
        for fault in &faults {
            let text = read(&process::root().join(fault.path())).unwrap();
            assert_ne!(fault.applied_to(&text).unwrap(), text, "{}", fault.name);
        }
        let names: BTreeSet<&str> = faults.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), faults.len(), "two faults have the same name");
        assert!(names.len() >= 150);
    }

    #[test]
    fn every_test_that_a_fault_names_exists() {
        let list = read(&process::root().join(LIST)).unwrap();
        let faults = parse(&list).unwrap();
        let tests: Vec<&str> = faults.iter().filter_map(|fault| fault.test).collect();
        assert!(!tests.is_empty());
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let path = process::root().join(format!("crates/neuron-loop/tests/it/{file}.rs"));
            assert!(read(&path).unwrap().contains(&format!("fn {name}(")), "{test}");
        }
    }

    #[test]
    fn a_fault_without_a_file_is_an_error() {
        assert!(parse("\n== no file\n-a\n+b\n").unwrap_err().contains("no file"));
        assert!(parse("\n== no text\na.rs\n+b\n").unwrap_err().contains("no text"));
    }

    #[test]
    fn a_sample_is_a_part_of_the_list() {
        let list = read(&process::root().join(LIST)).unwrap();
        let faults = parse(&list).unwrap();
        let (least, most) = (faults.len() / SAMPLE / 2, faults.len().div_ceil(SAMPLE) + SAMPLE);
        let sample = select(faults, Selection::Sample).unwrap();
        assert!((least..=most).contains(&sample.len()), "{}", sample.len());
    }
}
