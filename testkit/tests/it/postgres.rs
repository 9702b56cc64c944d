//! Tests of the PostgreSQL server. The server must keep committed data, and must end when its owner ends.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use neuron_testkit::postgres::PostgresServer;

use super::entries;

/// Environment variable that is set in the child process of a test.
const CHILD: &str = "NEURON_POSTGRES_TEST_CHILD";

#[test]
fn dropped_server_leaves_no_process_and_folder() {
    let Some(server) = PostgresServer::or_skip() else {
        return;
    };
    let port = server.port();
    assert!(listens(port));
    drop(server);
    assert!(!listens(port));
}

#[test]
fn killed_or_stopped_server_restarts_at_its_port() {
    let Some(server) = PostgresServer::or_skip() else {
        return;
    };
    server.kill().unwrap();
    assert!(!listens(server.port()));
    // A second call has no effect.
    server.kill().unwrap();
    server.restart().unwrap();
    assert!(listens(server.port()));
    assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
    server.stop().unwrap();
    assert!(!listens(server.port()));
    server.restart().unwrap();
    assert!(listens(server.port()));
}

#[test]
fn server_ends_if_its_process_is_killed() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    if PostgresServer::shared().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("neuron-postgres-test-{}", std::process::id()));
    // The server may run as another user than the test, so the folder must be writable for all users.
    std::fs::DirBuilder::new().mode(0o777).create(&folder).unwrap();
    let _mode = Command::new("chmod").arg("777").arg(&folder).status().unwrap();

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "postgres::server_ends_if_its_process_is_killed", "--nocapture"])
        .env(CHILD, "1")
        .env("TMPDIR", &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines
        .find_map(|line| line.unwrap().split_once("port ").and_then(|(_, port)| port.parse().ok()))
        .unwrap();
    assert!(listens(port));
    assert_eq!(entries(&folder).len(), 1);

    child.kill().unwrap();
    child.wait().unwrap();
    // The guard shell is not a child of this process, so the test cannot wait for it and must poll.
    let deadline = Instant::now() + Duration::from_secs(60);
    while listens(port) || !entries(&folder).is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", entries(&folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_dir(&folder).unwrap();
}

/// Starts a server, and sleeps until this process is killed.
fn child() {
    let server = PostgresServer::start().unwrap();
    println!("port {}", server.port());
    loop {
        std::thread::park();
    }
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
