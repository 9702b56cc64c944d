//! Tests of programs that are not available.

use std::process::{Command, Output};

use neuron_testkit::engines::{RestateServer, TemporalServer};
use neuron_testkit::mcp::{self, EverythingServer, Suite};
use neuron_testkit::postgres::PostgresServer;

use super::CHILD;

/// Runs the test `test` again in a child process with these environment variables, and returns its output.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env_remove("CI").env(CHILD, "1");
    child.envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn missing_program_is_reported_in_one_line_and_fails_on_ci() {
    const TEST: &str = "finding::missing_program_is_reported_in_one_line_and_fails_on_ci";
    if std::env::var_os(CHILD).is_some() {
        for _ in 0..2 {
            assert!(RestateServer::or_skip().is_none());
            assert!(TemporalServer::or_skip().is_none());
            assert!(EverythingServer::or_skip().is_none());
            assert!(Suite::or_skip().is_none());
            assert!(mcp::python_or_skip().is_none());
            assert!(PostgresServer::or_skip().is_none());
        }
        assert!(RestateServer::shared().is_none());
        assert!(TemporalServer::shared().is_none());
        return;
    }
    let none = [
        ("NEURON_RESTATE_SERVER", "none"),
        ("NEURON_TEMPORAL_SERVER", "/no/such/file"),
        ("NEURON_MCP_NODE", "none"),
        ("NEURON_MCP_PYTHON", "none"),
        ("NEURON_POSTGRES_BIN", "none"),
    ];
    let output = run(TEST, &none);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        said(&output),
        "not tested: whatever needs Restate (NEURON_RESTATE_SERVER says that there is none)\n\
         not tested: whatever needs Temporal (NEURON_TEMPORAL_SERVER is /no/such/file, which is no file)\n\
         not tested: whatever needs the conformance suite and the reference servers of MCP (NEURON_MCP_NODE says that there is none)\n\
         not tested: whatever needs MCP's SDK for Python (NEURON_MCP_PYTHON says that there is none)\n\
         not tested: whatever needs PostgreSQL (NEURON_POSTGRES_BIN says that there is none)\n"
    );
    let output = run(TEST, &[none.as_slice(), &[("CI", "true")]].concat());
    assert!(!output.status.success());
    assert!(said(&output).contains("with CI=true everything must be tested"), "{output:?}");
}

#[test]
fn program_that_is_no_server_returns_its_last_output() {
    const TEST: &str = "finding::program_that_is_no_server_returns_its_last_output";
    if std::env::var_os(CHILD).is_some() {
        eprintln!("{}", RestateServer::start().unwrap_err());
        eprintln!("{}", TemporalServer::start().unwrap_err());
        return;
    }
    let shell = [("NEURON_RESTATE_SERVER", "/bin/sh"), ("NEURON_TEMPORAL_SERVER", "/bin/sh")];
    let output = run(TEST, &shell);
    assert!(output.status.success(), "{output:?}");
    // `/bin/sh` takes the place of the servers. Without arguments it prints nothing. With Temporal's arguments it
    // reports that `server` is not found.
    let said = said(&output);
    assert!(said.starts_with("it ended; its log:\n\nit ended; its log:\n"), "{said}");
    assert!(said.contains("server"), "{said}");
}

/// Runs the download in a child process that has its own target folder, and neither npm nor Python.
#[test]
fn failed_download_is_not_repeated_soon() {
    const TEST: &str = "finding::failed_download_is_not_repeated_soon";
    if std::env::var_os(CHILD).is_some() {
        for _ in 0..2 {
            assert!(RestateServer::or_skip().is_none());
            assert!(mcp::python_or_skip().is_none());
        }
        return;
    }
    let target = tempfile::tempdir().unwrap();
    std::fs::write(target.path().join("CACHEDIR.TAG"), "").unwrap();
    let program = target.path().join("test");
    // Another process copies the program. If this process wrote the file, a child process of a concurrent test could
    // inherit the open file, and the program could not be started.
    let mut copy = Command::new("cp");
    let copied = copy.arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let fetches = [
        "fetching Restate (",
        "fetching npm (",
        "not tested: whatever needs Restate (npm cannot be started: ",
        "fetching MCP's SDK for Python (",
        "not tested: whatever needs MCP's SDK for Python (cannot start `python3 -m venv ",
    ];
    for expected in [&fetches[..], &[fetches[2], fetches[4]]] {
        let mut child = Command::new(&program);
        child.args(["--exact", TEST, "--nocapture"]).env_remove("CI").env(CHILD, "1");
        for variable in ["NEURON_RESTATE_SERVER", "NEURON_MCP_PYTHON"] {
            child.env_remove(variable);
        }
        let output = child.env("PATH", target.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = said(&output);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{said}");
        assert!(lines.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{said}");
    }
    // A failed download must not leave a folder with its final name.
    for entry in std::fs::read_dir(target.path().join("testkit")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let endings = [".lock", ".partial", ".failed"];
        assert!(endings.iter().any(|ending| name.ends_with(ending)), "{name}");
    }
}
