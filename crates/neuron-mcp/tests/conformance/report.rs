//! What the conformance suite says of a run.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use neuron_testkit::mcp::Suite;
use serde_json::Value;

/// Which of the two ends is tested: the suite's command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    #[cfg(feature = "oauth")]
    Client,
    Server,
}

impl End {
    fn command(self) -> &'static str {
        match self {
            #[cfg(feature = "oauth")]
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The heading above its scenarios.
    fn heading(self) -> &'static str {
        match self {
            #[cfg(feature = "oauth")]
            Self::Client => "Client scenarios",
            Self::Server => "Server scenarios",
        }
    }
}

/// Runs the scenarios of a revision, and panics unless each that counts has passed. The message has what failed.
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
    // Also for who wants to see what does not count: with `--nocapture`.
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

/// The scenarios that count.
fn required(suite: &Suite, end: End, revision: &str) -> Vec<String> {
    let output =
        suite.conformance().command().args(["list", "--requirements", revision]).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout);
    let (_, scenarios) = list.split_once(end.heading()).unwrap_or_else(|| panic!("{list}"));
    // Those that do not count come after another heading.
    let names = scenarios.lines().skip(1).take_while(|line| !line.trim().is_empty());
    let names: Vec<String> = names.map(|line| line.trim_start_matches("  - ").to_owned()).collect();
    assert!(names.len() > 10, "not the list of scenarios: {list}");
    names
}

/// The scenarios in which something was checked, and nothing failed.
fn passed(report: &str) -> BTreeSet<&str> {
    let lines = report.lines().filter_map(|line| line.strip_prefix("✓ "));
    let results = lines.filter_map(|line| line.split_once(": "));
    results.filter(|(_, counts)| !counts.starts_with("0 passed")).map(|(name, _)| name).collect()
}

/// What failed, and what a client said about it. The suite keeps a folder for each scenario.
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
