//! Tests of the Temporal server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use neuron_testkit::engines::TemporalServer;

use super::{CHILD, child, entries, listens, wait_until};

#[test]
fn dropped_server_leaves_no_process_and_folder() {
    let Some(server) = TemporalServer::or_skip() else {
        return;
    };
    let address = server.address();
    assert!(listens(&address));
    drop(server);
    assert!(!listens(&address));
}

#[cfg(target_os = "linux")]
#[test]
fn server_listens_only_on_loopback() {
    let Some(server) = TemporalServer::or_skip() else {
        return;
    };
    super::assert_only_loopback(server.process_id().unwrap());
}

#[test]
fn killed_or_stopped_server_restarts_at_its_address() {
    let Some(server) = TemporalServer::or_skip() else {
        return;
    };
    let address = server.address();
    server.kill().unwrap();
    server.kill().unwrap();
    assert!(!listens(&address));
    server.restart().unwrap();
    assert!(listens(&address));
    server.stop().unwrap();
    server.stop().unwrap();
    assert!(!listens(&address));
    server.restart().unwrap();
    assert!(listens(&address));
    assert_eq!(server.address(), address);
}

#[test]
fn restart_fails_if_a_port_is_taken() {
    let Some(server) = TemporalServer::or_skip() else {
        return;
    };
    server.kill().unwrap();
    let other = TcpListener::bind(server.address()).unwrap();
    let error = server.restart().unwrap_err().to_string();
    assert_eq!(error, "another process listens on a port that the server had");
    assert_eq!(server.process_id(), None);
    drop(other);
    server.restart().unwrap();
    assert!(listens(&server.address()));
}

#[test]
fn two_servers_run_independently() {
    let (Some(one), Some(other)) = (TemporalServer::or_skip(), TemporalServer::or_skip()) else {
        return;
    };
    assert_ne!(one.address(), other.address());
    one.kill().unwrap();
    assert!(listens(&other.address()));
}

#[test]
fn start_in_keeps_the_data_after_the_server() {
    if TemporalServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.db");
    drop(TemporalServer::start_in(&data).unwrap());
    assert!(std::fs::metadata(&data).unwrap().len() > 0);
    TemporalServer::start_in(&data).unwrap().stop().unwrap();
    assert!(std::fs::metadata(&data).unwrap().len() > 0);
}

#[test]
fn failed_start_returns_the_log() {
    if TemporalServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    std::fs::write(&file, "no database").unwrap();
    let error = TemporalServer::start_in(&file).unwrap_err().to_string();
    assert!(error.starts_with("it ended; its log:\n"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"no database");
}

#[test]
fn server_ends_if_its_process_is_killed() {
    const TEST: &str = "temporal::server_ends_if_its_process_is_killed";
    if std::env::var_os(CHILD).is_some() {
        let server = TemporalServer::start().unwrap();
        println!("at {}", server.address());
        loop {
            std::thread::park();
        }
    }
    if TemporalServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(TEST, folder.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let find =
        |line: Result<String, _>| line.unwrap().split_once("at ").map(|(_, at)| at.to_owned());
    let address = lines.find_map(find).unwrap();
    assert!(listens(&address));
    assert_eq!(entries(folder.path()).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("nothing is left", || !listens(&address) && entries(folder.path()).is_empty());
}
