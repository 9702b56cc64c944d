//! Tests of the servers of PostgreSQL, the durable engines and MCP. A server must keep its data, must not affect other
//! processes, and must end when its owner ends.
#![cfg(unix)]

mod finding;
mod mcp;
mod postgres;
mod restate;
mod temporal;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable that is set in the child processes of these tests.
const CHILD: &str = "NEURON_ENGINE_TEST_CHILD";

/// Returns the port at the end of an address.
fn port(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

fn listens(address: &str) -> bool {
    TcpStream::connect(("127.0.0.1", port(address))).is_ok()
}

/// Returns a command that runs the test `test` again in a child process, whose temporary folder is `folder`.
fn child(test: &str, folder: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env("TMPDIR", folder);
    child.stdout(Stdio::piped());
    child
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Polls a condition until it is `true`. Panics with `what` after a time limit.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the addresses at which a process listens, in the format of `/proc/net/tcp`, which is hexadecimal and
/// includes the port.
#[cfg(target_os = "linux")]
fn listening(process: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: Vec<String> = links
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table =
            std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // In `/proc/net/tcp`, the fourth field is the state, where 0A is listening. The tenth field is the inode of
            // the socket.
            if fields[3] == "0A" && sockets.iter().any(|socket| socket == fields[9]) {
                found.push(fields[1].to_owned());
            }
        }
    }
    found
}

/// Asserts that a process listens only on 127.0.0.1.
#[cfg(target_os = "linux")]
fn assert_only_loopback(process: u32) {
    let addresses = listening(process);
    assert!(!addresses.is_empty());
    for address in addresses {
        assert!(address.starts_with("0100007F:"), "listens at {address}");
    }
}
