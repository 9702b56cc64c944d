//! Runs the MCP conformance suite and evaluates its report.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use neuron_testkit::mcp::Suite;
use serde_json::Value;

/// The end of the connection that the suite tests, the client or the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    #[cfg(feature = "oauth")]
    Client,
    Server,
}

impl End {
    /// Returns the subcommand of the conformance suite that tests clients (`client`) or servers (`server`).
    fn command(self) -> &'static str {
        match self {
            #[cfg(feature = "oauth")]
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Returns the heading of the client scenarios or of the server scenarios in the list that the conformance suite
    /// prints.
    fn heading(self) -> &'static str {
        match self {
            #[cfg(feature = "oauth")]
            Self::Client => "Client scenarios",
            Self::Server => "Server scenarios",
        }
    }
}

/// Runs the scenarios of the protocol version `revision` in the MCP conformance suite. Panics if a required scenario
/// has not passed, with the failed scenarios and checks in the message.
///
/// `end` selects the scenarios for clients or for servers. `args` are additional command-line arguments for the suite.
#[track_caller]
pub(crate) fn assert_conforms(
    suite: &Suite,
    end: End,
    revision: &str,
    args: impl FnOnce(&mut Command),
) {
    let results = tempfile::tempdir().unwrap();
    let mut command = suite.conformance().command();
    command.args([end.command(), "--requirements", revision, "--output-dir"]).arg(results.path());
    args(&mut command);
    let output = command.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let passed = passed(&report);
    // Shows the optional scenarios too, in a run with `--nocapture`.
    println!("{report}\n{}", failures(results.path()));
    let mut missing = required(suite, end, revision);
    missing.retain(|name| !passed.contains(name.as_str()));
    assert!(
        output.status.success() && missing.is_empty(),
        "the {} does not conform to {revision}, by {missing:?}:\n{}\n{}",
        end.command(),
        failures(results.path()),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Returns the names of the scenarios that a client or a server (`end`) must pass for a protocol version (`revision`).
fn required(suite: &Suite, end: End, revision: &str) -> Vec<String> {
    let output =
        suite.conformance().command().args(["list", "--requirements", revision]).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout);
    let (_, scenarios) = list.split_once(end.heading()).unwrap_or_else(|| panic!("{list}"));
    // The optional scenarios follow under another heading after an empty line.
    let names = scenarios.lines().skip(1).take_while(|line| !line.trim().is_empty());
    let names: Vec<String> = names.map(|line| line.trim_start_matches("  - ").to_owned()).collect();
    assert!(names.len() > 10, "not the list of scenarios: {list}");
    names
}

/// Returns the names of the passed scenarios in a report of the conformance suite. A passed scenario has at least one
/// passed check, and no failed check.
fn passed(report: &str) -> BTreeSet<&str> {
    let lines = report.lines().filter_map(|line| line.strip_prefix("✓ "));
    let results = lines.filter_map(|line| line.split_once(": "));
    results.filter(|(_, counts)| !counts.starts_with("0 passed")).map(|(name, _)| name).collect()
}

/// Returns the failed checks and the client's standard error of each scenario, as text. The suite writes one folder per
/// scenario, so `folder` is searched recursively.
fn failures(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&failures(&path));
        }
    }
    let Ok(checks) = fs::read_to_string(folder.join("checks.json")) else { return text };
    let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
    let failed = |check: &&Value| check["status"] == "FAILURE" || check["status"] == "WARNING";
    let failed: Vec<&Value> = checks.iter().filter(failed).collect();
    if failed.is_empty() {
        return text;
    }
    writeln!(text, "{}", folder.file_name().unwrap().display()).unwrap();
    for check in failed {
        let why = check["errorMessage"].as_str().or(check["description"].as_str());
        let [status, id] = ["status", "id"].map(|field| check[field].as_str().unwrap_or_default());
        writeln!(text, "  {status} {id}: {}", why.unwrap_or_default()).unwrap();
        if let Some(details) = check.get("details") {
            writeln!(text, "    {details}").unwrap();
        }
    }
    let said = fs::read_to_string(folder.join("stderr.txt")).unwrap_or_default();
    for line in said.lines() {
        writeln!(text, "    | {line}").unwrap();
    }
    text
}
