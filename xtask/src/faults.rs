//! The command `cargo xtask faults`, which checks that tests of the agent loop find deliberate faults in its source.
//!
//! A fault is a comment in the source, above the line that it breaks. The module `source` describes the comments. All
//! faults are compiled into copies of the crates, and an environment variable selects one of them. The model of
//! the loop, which runs random cases, must then fail. If the model does not cover the faulty code, the comment names
//! another test that must fail.
//!
//! The faults are mistakes that a person would make. We do not use cargo-mutants, because it generates a mutant for
//! every function and cannot use given faults.

mod copy;
mod instrument;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::copy::Copy;
use self::source::{Fault, Source};
use crate::compiler::PROFILE;
use crate::{budget, changes, compiler, driver, process, workspace};

/// The environment variable that selects a fault by its name.
const VARIABLE: &str = "NEURON_FAULT";

const TESTS: &str = "crates/neuron-loop/tests/";

/// The beginning of the paths of the model in [`TESTS`].
const MODEL: &str = "it/model";

/// The test target. Its name is unique in the workspace.
const PROGRAM: &str = "loop";

/// The test of the model.
const MODEL_TEST: &str = "model::loop_matches_the_reference_under_any_interruption";

/// Number of random cases that the model runs for each fault. Most faults are found within 100 cases, and the fault
/// that takes longest within 19,000.
const CASES: u32 = 20_000;

/// Number of random cases that the model runs without a fault at first. If it needs more of them to find the faults, it
/// runs the others afterwards.
const FIRST_CASES: u32 = 1_000;

/// Time limit for a test of the source without a fault.
const LIMIT: Duration = Duration::from_secs(900);

/// Minimum time limit for a test of the source with a fault. The actual limit is ten times the duration of the test
/// without a fault, if that is longer. A test that exceeds the limit counts as an endless loop.
const MINIMUM_LIMIT: Duration = Duration::from_secs(30);

/// Number of faults in a sample.
const SAMPLE: usize = 64;

/// Selects the faults that a run of `cargo xtask faults` tries.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    All,
    /// The faults whose names contain this text.
    Named(&'a str),
    /// [`SAMPLE`] faults. Faults that the current changes affect come first.
    Sample,
}

/// Compiles all faults into copies of the crates. Runs the test that must fail for each selected fault. Returns an
/// error if the test succeeds for any of them.
pub(crate) fn check(selection: Selection<'_>) -> Result<(), String> {
    let sources = source::read_all()?;
    let faults = select(&sources, selection)?;
    let start = Instant::now();
    let program = Program::build(&sources)?;
    println!("{:>5.1} s  built with all faults", start.elapsed().as_secs_f64());
    let tests: BTreeSet<&str> = faults.iter().map(|fault| fault.test()).collect();
    let mut limits = BTreeMap::new();
    for test in tests {
        let start = Instant::now();
        program.check(test, 0..FIRST_CASES)?;
        // The model then runs more cases than here.
        let factor = if test == MODEL_TEST { 10 * CASES.div_ceil(FIRST_CASES) } else { 10 };
        limits.insert(test, MINIMUM_LIMIT.max(start.elapsed().saturating_mul(factor)));
    }
    println!("{:>5.1} s  the tests pass without a fault", start.elapsed().as_secs_f64());
    let outcome = program.run_all(&faults, &limits)?;
    // Without a fault, the model must also pass in the cases in which it found faults.
    if outcome.cases > FIRST_CASES {
        program.check(MODEL_TEST, FIRST_CASES..outcome.cases)?;
    }
    let (all, seconds) = (faults.len(), start.elapsed().as_secs_f64());
    println!("{all} faults, {} found in {seconds:.1} s", all - outcome.missed.len());
    match outcome.missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("no test notices: {}", missed.join("; "))),
    }
}

fn select<'s>(sources: &'s [Source], selection: Selection<'_>) -> Result<Vec<&'s Fault>, String> {
    let all = sources.iter().flat_map(|source| source.faults.iter().map(move |it| (source, it)));
    match selection {
        Selection::All => Ok(all.map(|(_, fault)| fault).collect()),
        Selection::Named(text) => {
            let named = all.map(|(_, fault)| fault).filter(|fault| fault.name.contains(text));
            let named: Vec<_> = named.collect();
            match named.is_empty() {
                true => Err(format!("no fault has `{text}` in its name")),
                false => Ok(named),
            }
        }
        Selection::Sample => {
            let files = &changes::current()?.files;
            let is_model_changed =
                files.iter().any(|file| file.starts_with(&format!("{TESTS}{MODEL}")));
            let is_affected = |(source, fault): &(&Source, &Fault)| match &fault.test {
                _ if files.contains(&source.path) => true,
                None => is_model_changed,
                Some(test) => files.contains(&file_of(test)),
            };
            let (affected, others): (Vec<_>, Vec<_>) = all.partition(is_affected);
            let count = affected.len();
            let mut sample = changes::sample(affected, SAMPLE);
            println!("the change affects {count} faults, of which {} are tried", sample.len());
            sample.extend(changes::sample(others, SAMPLE.saturating_sub(sample.len())));
            Ok(sample.into_iter().map(|(_, fault)| fault).collect())
        }
    }
}

/// Returns the path of the file that contains a test of `tests/it`.
fn file_of(test: &str) -> String {
    let module = test.split_once("::").map_or(test, |(module, _)| module);
    format!("{TESTS}it/{module}.rs")
}

impl Fault {
    /// Returns the name of the test that must find the fault.
    fn test(&self) -> &str {
        self.test.as_deref().unwrap_or(MODEL_TEST)
    }
}

enum Verdict {
    /// The test failed or did not end, so it found the fault.
    Found {
        /// A line of the output, the name of the test, or a short reason.
        line: String,
        /// Number of cases that the model needed.
        cases: u32,
    },
    Missed,
}

/// The outcome of the tests for all faults.
#[derive(Default)]
struct Outcome<'f> {
    /// Names of the faults that no test found.
    missed: Vec<&'f str>,
    /// Highest number of cases that the model needed to find a fault.
    cases: u32,
    /// Set if a test could not be run.
    error: Option<String>,
}

/// The test program of the loop, whose libraries contain all faults.
struct Program {
    copy: Copy,
    path: PathBuf,
}

impl Program {
    /// Puts the faults into copies of the crates that have some, and builds the test program with them.
    ///
    /// The other crates are those of the build that the steps share.
    fn build(sources: &[Source]) -> Result<Self, String> {
        let mut texts = instrument::instrument(sources)?;
        for library in instrument::libraries(&texts) {
            let text = match texts.get(&library) {
                Some(text) => text.clone(),
                None => fs::read_to_string(process::root().join(&library))
                    .map_err(|error| format!("cannot read {library}: {error}"))?,
            };
            texts.insert(library, instrument::declare_module(&text));
        }
        let copy = Copy::make(workspace::members()?.target_directory.join("faults"), &texts)?;
        let compiler = copy.folder.join(driver::WITH_FAULTS);
        let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        fs::copy(&this, &compiler).map_err(|error| format!("{}: {error}", compiler.display()))?;
        let args = ["test", "--no-run", "--profile", PROFILE, "--test", PROGRAM];
        let messages = budget::FAULTS.run(compiler::cargo_with(&compiler, args)?)?;
        let path = process::programs(&messages, true).next();
        let (_, path) = path.ok_or("the build made no test program")?;
        Ok(Self { copy, path })
    }

    /// Returns an error if a test fails without a fault. The model runs the given cases.
    fn check(&self, test: &str, cases: Range<u32>) -> Result<(), String> {
        match self.run(test, None, cases, LIMIT, 0)? {
            Verdict::Missed => Ok(()),
            Verdict::Found { line, .. } => {
                Err(format!("the test {} fails without a fault: {line}", test))
            }
        }
    }

    /// Runs the tests for all faults, as many at once as the machine has processors.
    fn run_all<'f>(
        &self,
        faults: &[&'f Fault],
        limits: &BTreeMap<&str, Duration>,
    ) -> Result<Outcome<'f>, String> {
        let (next, outcome) = (AtomicUsize::new(0), Mutex::new(Outcome::default()));
        let outcome_of = || outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |worker| {
            while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (start, test) = (Instant::now(), fault.test());
                let limit = limits.get(test).copied().unwrap_or(LIMIT);
                let verdict = self.run(test, Some(&fault.name), 0..CASES, limit, worker);
                let seconds = start.elapsed().as_secs_f64();
                let mut outcome = outcome_of();
                match verdict {
                    Ok(Verdict::Found { line, cases }) => {
                        println!("{seconds:>5.1} s  found: {}: {line}", fault.name);
                        outcome.cases = outcome.cases.max(cases);
                    }
                    Ok(Verdict::Missed) => {
                        println!("{seconds:>5.1} s  MISSED: {}", fault.name);
                        outcome.missed.push(&fault.name);
                    }
                    Err(reason) => {
                        outcome.error = Some(format!("{}: {reason}", fault.name));
                        return;
                    }
                }
            }
        };
        thread::scope(|scope| {
            for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(move || work(worker));
            }
        });
        let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.error.take().map_or(Ok(outcome), Err)
    }

    /// Runs a test with a fault or without. The model runs the given cases. The output is written to a file of the
    /// `worker`.
    fn run(
        &self,
        test: &str,
        fault: Option<&str>,
        cases: Range<u32>,
        limit: Duration,
        worker: usize,
    ) -> Result<Verdict, String> {
        let mut program = process::program(&self.path);
        program.args(["--exact", test]);
        program.env("MODEL_FIRST", cases.start.to_string());
        program.env("MODEL_CASES", cases.len().to_string());
        program.env("RUST_BACKTRACE", "0").env_remove(VARIABLE);
        program.envs(fault.map(|fault| (VARIABLE, fault)));
        let output = self.copy.folder.join(format!("output-{worker}.txt"));
        match process::run_within(program, &output, limit)? {
            process::Ending::Success(output) if output.contains(" 1 passed") => Ok(Verdict::Missed),
            process::Ending::Success(_) => Err(format!("there is no test {}", test)),
            process::Ending::Failure(_, output) => {
                let case = output.lines().find_map(|line| {
                    let (number, _) = line.strip_prefix("case ")?.split_once(':')?;
                    Some((line, number.parse::<u32>().ok()?.saturating_add(1)))
                });
                // Without a case, the situations that the cases cover are too few.
                let all = if test == MODEL_TEST { CASES } else { 0 };
                let (line, cases) = case.unwrap_or((test, all));
                Ok(Verdict::Found { line: line.chars().take(90).collect(), cases })
            }
            process::Ending::TimedOut => {
                Ok(Verdict::Found { line: "it does not end".to_owned(), cases: 0 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_fits_the_line_below_it() {
        let sources = source::read_all().unwrap();
        for (path, text) in instrument::instrument(&sources).unwrap() {
            assert!(syn::parse_file(&text).is_ok(), "{path} is not valid with its faults:\n{text}");
        }
        let faults: Vec<&Fault> = select(&sources, Selection::All).unwrap();
        let names: BTreeSet<&str> = faults.iter().map(|fault| &*fault.name).collect();
        assert_eq!(names.len(), faults.len(), "two faults have the same name");
        assert!(names.len() >= 300, "only {} faults", names.len());
    }

    #[test]
    fn every_test_that_a_fault_names_exists() {
        let sources = source::read_all().unwrap();
        let faults = sources.iter().flat_map(|source| &source.faults);
        let tests: BTreeSet<&String> = faults.filter_map(|fault| fault.test.as_ref()).collect();
        assert!(!tests.is_empty());
        for test in tests {
            let text = fs::read_to_string(process::root().join(file_of(test))).unwrap();
            let (_, name) = test.rsplit_once("::").unwrap();
            assert!(text.contains(&format!("fn {name}(")), "{test}");
        }
        let folder = process::root().join(TESTS);
        let model = fs::read_to_string(folder.join(format!("{MODEL}.rs"))).unwrap();
        let (_, name) = MODEL_TEST.split_once("::").unwrap();
        assert!(model.contains(&format!("fn {name}(")));
    }

    #[test]
    fn a_sample_has_enough_faults() {
        let sources = source::read_all().unwrap();
        let sample = select(&sources, Selection::Sample).unwrap();
        assert_eq!(sample.len(), SAMPLE);
    }
}
