//! Programs of others for tests: where they are, and what happens where one cannot be had.

pub(crate) mod find;
pub(crate) mod program;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use program::Program;

/// What was started or found, or none where the program cannot be had, which is said once.
#[expect(clippy::panic, reason = "tests end where what they need fails")]
pub(crate) fn or_skip<T>(program: &Program, started: io::Result<T>) -> Option<T> {
    static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let name = program.name;
    match started {
        Ok(server) => Some(server),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if std::env::var("CI").is_ok_and(|ci| ci == "true") {
                panic!("with CI=true everything must be tested: {error}");
            }
            if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
                // Not by `eprintln!`, which tests that pass do not show. If nobody can read the line,
                // nobody misses it.
                let _ = writeln!(io::stderr(), "not tested: whatever needs {name} ({error})");
            }
            None
        }
        Err(error) => panic!("{name} does not start: {error}"),
    }
}
