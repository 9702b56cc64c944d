//! The share of each step that compiles: how many crates it may compile, and how many programs it may link.
//!
//! The seconds of a step depend on the machine. These numbers do not, so a step that grows beyond its share fails on every
//! machine. Raise a share only for a reason that is worth the time of everybody who runs the tests.

use std::process::Command;

use serde_json::Value;

use crate::process;

/// The argument with which cargo prints the messages that [`Share::check`] reads.
pub(crate) const MESSAGES_AS_JSON: &str = "--message-format=json-render-diagnostics";

/// The share of a step.
pub(crate) struct Share {
    step: &'static str,
    /// Maximum number of compiled crates. A crate counts again for its own tests, and for another selection of features.
    crates: usize,
    /// Maximum number of linked programs, without build scripts.
    programs: usize,
}

/// The build that most steps share. Each crate has at most two programs: `tests/it`, and the tests of its private parts.
pub(crate) const BUILD: Share = Share { step: "build", crates: 720, programs: 76 };

/// The loop with all deliberate faults, and what its tests use.
pub(crate) const FAULTS: Share = Share { step: "faults", crates: 200, programs: 1 };

/// The benchmarks, which run once, and the server of a benchmark.
pub(crate) const BENCHES: Share = Share { step: "benches", crates: 720, programs: 2 };

/// The program of the vendors' clients, with the examples.
pub(crate) const SDKS: Share = Share { step: "sdks", crates: 720, programs: 6 };

/// A library with one of its features.
pub(crate) const FEATURE: Share = Share { step: "features", crates: 500, programs: 0 };

/// The packages for wasm32.
pub(crate) const WASM: Share = Share { step: "wasm", crates: 320, programs: 0 };

/// The tests that run the module for wasm32.
pub(crate) const NODE: Share = Share { step: "wasm under Node.js", crates: 720, programs: 1 };

impl Share {
    /// Runs a cargo command that compiles, and returns its messages.
    pub(crate) fn run(&self, mut command: Command) -> Result<String, String> {
        command.arg(MESSAGES_AS_JSON);
        let messages = process::capture(command)?;
        self.check(&messages)?;
        Ok(messages)
    }

    /// Returns an error if a build took more than its share. `messages` is its output. Crates that were compiled before
    /// count too.
    pub(crate) fn check(&self, messages: &str) -> Result<(), String> {
        let (mut crates, mut programs) = (0, 0);
        for line in messages.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
            if text("/reason") == Some("compiler-artifact") {
                crates += 1;
                let is_script = text("/target/kind/0") == Some("custom-build");
                programs += usize::from(text("/executable").is_some() && !is_script);
            }
        }
        println!("{}: {crates} crates, {programs} programs", self.step);
        match crates > self.crates || programs > self.programs {
            true => Err(format!(
                "it compiles {crates} crates and links {programs} programs, and its share is {} and {}. Merge programs, \
                 or remove dependencies",
                self.crates, self.programs
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
        {"reason":"compiler-artifact","target":{"kind":["lib"]},"executable":null}
        {"reason":"compiler-artifact","target":{"kind":["custom-build"]},"executable":"/t/build"}
        {"reason":"compiler-artifact","target":{"kind":["test"]},"executable":"/t/it"}
        {"reason":"build-script-executed"}
        {"reason":"build-finished","success":true}
        a line of a program"#;

    #[test]
    fn a_step_fails_above_its_share() {
        let check = |crates, programs| Share { step: "a", crates, programs }.check(MESSAGES);
        assert_eq!(check(3, 1), Ok(()));
        let expected = "it compiles 3 crates and links 1 programs, and its share is 2 and 1.";
        assert!(check(2, 1).unwrap_err().starts_with(expected));
        assert!(check(3, 0).is_err());
    }
}
