//! Tests of MCP's conformance suite, its reference servers and its SDK for Python.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use neuron_testkit::mcp::{self, EverythingServer, Suite};

use super::listens;

/// Returns the host and the port of a URL.
fn address(url: &str) -> String {
    url.trim_end_matches("/mcp").to_owned()
}

#[test]
fn dropped_server_leaves_no_process_and_folder() {
    let (Some(one), Some(other)) = (EverythingServer::or_skip(), EverythingServer::or_skip())
    else {
        return;
    };
    let addresses = [address(&one.url()), address(&other.url())];
    assert!(addresses.iter().all(|address| listens(address)));
    drop(one);
    drop(other);
    assert!(!addresses.iter().any(|address| listens(address)));
}

#[test]
fn killed_server_does_not_listen() {
    let Some(server) = EverythingServer::or_skip() else {
        return;
    };
    assert!(server.log().contains("listening on port"), "{}", server.log());
    server.kill().unwrap();
    server.kill().unwrap();
    assert!(!listens(&address(&server.url())));
    assert_eq!(server.process_id(), None);
}

#[cfg(target_os = "linux")]
#[test]
fn server_listens_only_on_loopback() {
    let Some(server) = EverythingServer::or_skip() else {
        return;
    };
    super::assert_only_loopback(server.process_id().unwrap());
}

/// Checks each call with which a Node.js program can listen on all interfaces, and that the address is known
/// immediately after the call.
#[cfg(target_os = "linux")]
#[test]
fn node_programs_listen_only_on_loopback() {
    const SCRIPT: &str = "
        const net = require('net');
        const servers = [[0], [{ port: 0 }], [0, '0.0.0.0'], [0, '::'], []].map(args => {
          const server = net.createServer().listen(...args);
          if (!args[1]) console.log(server.address().address);
          return new Promise(resolve => server.on('listening', resolve));
        });
        Promise.all(servers).then(() => console.log('done'));";
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let program = suite.conformance();
    let mut command = Command::new(&program.program);
    // The script of the program, which is the last argument, is replaced by the test's own script.
    command.args(program.args.split_last().unwrap().1).args(["-e", SCRIPT]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| line != "done").collect();
    let addresses = super::listening(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    // Each call reports the loopback address of its server immediately.
    assert_eq!(said, ["127.0.0.1"; 3]);
    assert_eq!(addresses.len(), 5, "{addresses:?}");
    assert!(addresses.iter().all(|address| address.starts_with("0100007F:")), "{addresses:?}");
}

#[test]
fn suite_lists_the_scenarios_of_both_versions() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    for version in ["2025-11-25", "2026-07-28"] {
        let mut list = suite.conformance().command();
        let output = list.args(["list", "--requirements", version]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("tools-list"), "{output:?}");
    }
}

#[test]
fn python_imports_the_sdk() {
    let Some(python) = mcp::python_or_skip() else {
        return;
    };
    let output = Command::new(python).args(["-c", "import mcp; print(mcp.__name__)"]).output();
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout), "mcp\n");
}
