//! Our client before the official suite, which is its server. The suite starts a program for each scenario: this
//! test, again.

mod authorization_page;
mod fixture;

use std::sync::{Mutex, PoisonError};

use neuron_testkit::mcp::Suite;

use crate::report::{End, assert_conforms};

/// How long a scenario may take, in milliseconds: many of them run at the same time.
const TIMEOUT: &str = "180000";

#[test]
fn conforms_to_2025_11_25() {
    conforms_to("2025-11-25");
}

#[test]
fn conforms_to_2026_07_28() {
    conforms_to("2026-07-28");
}

/// The suite sees what is missing.
#[test]
fn a_client_that_does_nothing_does_not_conform() {
    let Some(suite) = Suite::or_skip() else { return };
    let failure = std::panic::catch_unwind(|| judge(&suite, "2025-11-25", "true")).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("the client does not conform to 2025-11-25"), "{message}");
    // It checks nothing there if it is asked nothing.
    assert!(message.contains(r#""initialize""#), "{message}");
}

fn conforms_to(revision: &str) {
    let Some(suite) = Suite::or_skip() else { return };
    // A shell gets it, with the address of a server behind it: to the harness of the tests that is a further
    // filter, which fits no test.
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    judge(&suite, revision, &format!("'{program}' --exact client::fixture::scenario --nocapture"));
}

fn judge(suite: &Suite, revision: &str, client: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    assert_conforms(suite, End::Client, revision, |command| {
        command.args(["--timeout", TIMEOUT, "--command", client]);
    });
}
