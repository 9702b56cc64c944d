//! Tests of the client with the MCP conformance suite as server. For each scenario, the suite runs this test binary as
//! the client.

mod authorization_page;
mod fixture;

use std::sync::{Mutex, PoisonError};

use neuron_testkit::mcp::Suite;

use crate::conformance::report::{End, assert_conforms};

/// Timeout of a scenario, in milliseconds. Long, because many scenarios run concurrently.
const TIMEOUT: &str = "180000";

#[test]
fn conforms_to_2025_11_25() {
    conforms_to("2025-11-25");
}

#[test]
fn conforms_to_2026_07_28() {
    conforms_to("2026-07-28");
}

/// Checks that the MCP conformance suite fails for a client that sends nothing (the program `true`).
#[test]
fn client_that_sends_nothing_does_not_conform() {
    let Some(suite) = Suite::or_skip() else { return };
    let failure = std::panic::catch_unwind(|| judge(&suite, "2025-11-25", "true")).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("the client does not conform to 2025-11-25"), "{message}");
    // Without a request the suite performs no checks in the scenario `initialize`, so this scenario counts as not
    // passed.
    assert!(message.contains(r#""initialize""#), "{message}");
}

fn conforms_to(revision: &str) {
    let Some(suite) = Suite::or_skip() else { return };
    // The suite appends the URL of its server to this shell command. The test harness takes the URL for another name
    // filter, which matches no test.
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    judge(
        &suite,
        revision,
        &format!("'{program}' --exact conformance::client::fixture::scenario --nocapture"),
    );
}

/// Runs the client scenarios of a protocol version (`revision`) with the command `client`. Panics unless every required
/// scenario has passed.
fn judge(suite: &Suite, revision: &str, client: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    assert_conforms(suite, End::Client, revision, |command| {
        command.args(["--timeout", TIMEOUT, "--command", client]);
    });
}
