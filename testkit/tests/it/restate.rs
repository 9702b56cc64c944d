//! Tests of the Restate server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use neuron_testkit::engines::RestateServer;
use serde_json::json;

use super::{CHILD, child, entries, listens, wait_until};

#[test]
fn dropped_server_leaves_no_process_and_folder() {
    let Some(server) = RestateServer::or_skip() else {
        return;
    };
    let urls = [server.ingress_url(), server.admin_url()];
    assert!(urls.iter().all(|url| listens(url)));
    drop(server);
    assert!(!urls.iter().any(|url| listens(url)));
}

#[cfg(target_os = "linux")]
#[test]
fn server_listens_on_three_loopback_ports() {
    let Some(server) = RestateServer::or_skip() else {
        return;
    };
    let process = server.process_id().unwrap();
    super::assert_only_loopback(process);
    assert_eq!(super::listening(process).len(), 3);
}

#[tokio::test]
async fn killed_or_stopped_server_restarts_at_its_address() {
    let Some(server) = RestateServer::or_skip() else {
        return;
    };
    let (admin, ingress) = (server.admin_url(), server.ingress_url());
    server.kill().unwrap();
    assert!(!listens(&admin) && !listens(&ingress));
    assert_eq!(server.process_id(), None);
    // A second call has no effect.
    server.kill().unwrap();
    server.restart().unwrap();
    assert!(listens(&admin) && listens(&ingress));
    server.stop().unwrap();
    server.stop().unwrap();
    assert!(!listens(&admin) && !listens(&ingress));
    server.restart().unwrap();
    // A running server is killed first.
    let process = server.process_id();
    server.restart().unwrap();
    assert_ne!(server.process_id(), process);
    assert_eq!((server.admin_url(), server.ingress_url()), (admin, ingress));
    assert_eq!(server.query("select 1 + 1 as sum").await.unwrap(), [json!({"sum": 2})]);
}

#[test]
fn restart_fails_if_a_port_is_taken() {
    let Some(server) = RestateServer::or_skip() else {
        return;
    };
    for url in [server.admin_url(), server.ingress_url()] {
        server.kill().unwrap();
        let other = TcpListener::bind(("127.0.0.1", super::port(&url))).unwrap();
        let error = server.restart().unwrap_err().to_string();
        assert_eq!(error, "another process listens on a port that the server had");
        // The process of the failed start must have ended.
        assert_eq!(server.process_id(), None);
        drop(other);
        server.restart().unwrap();
        assert!(listens(&url));
    }
}

#[tokio::test]
async fn two_servers_run_independently() {
    let (Some(one), Some(other)) = (RestateServer::or_skip(), RestateServer::or_skip()) else {
        return;
    };
    assert_ne!(one.ingress_url(), other.ingress_url());
    one.kill().unwrap();
    assert_eq!(other.query("select 1 as one").await.unwrap(), [json!({"one": 1})]);
}

#[tokio::test]
async fn rejected_requests_return_the_text_of_the_server() {
    let Some(server) = RestateServer::shared() else {
        return;
    };
    let error = server.query("select nothing from nowhere").await.unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
    // The server of this port is already dropped, so no process listens on it.
    let [port] = [super::port(&RestateServer::start().unwrap().admin_url())];
    let error = server.register(&format!("http://127.0.0.1:{port}")).await.unwrap_err().to_string();
    assert!(error.starts_with("status "), "{error}");
    assert!(server.query("select id from sys_deployment").await.unwrap().is_empty());
}

#[tokio::test]
async fn requests_to_a_killed_server_fail() {
    let Some(server) = RestateServer::or_skip() else {
        return;
    };
    server.kill().unwrap();
    let error = server.query("select 1").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn start_in_keeps_the_data_after_the_server() {
    if RestateServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = RestateServer::start_in(&data).unwrap();
    drop(server);
    let before = entries(&data);
    assert!(!before.is_empty());
    // The second server has other ports but the same data.
    let server = RestateServer::start_in(&data).unwrap();
    server.stop().unwrap();
    drop(server);
    assert_eq!(entries(&data).len(), before.len());
}

#[test]
fn failed_start_returns_the_log() {
    if RestateServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let error = RestateServer::start_in(&file).unwrap_err().to_string();
    assert!(error.starts_with("it ended; its log:\n"), "{error}");
    assert!(error.contains("failed to create data directory"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"no folder");
}

#[test]
fn server_ends_if_its_process_is_killed() {
    const TEST: &str = "restate::server_ends_if_its_process_is_killed";
    if std::env::var_os(CHILD).is_some() {
        return hold();
    }
    if RestateServer::shared().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(TEST, folder.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.find_map(|line| line.unwrap().split_once("at ").map(|(_, url)| url.to_owned()));
    let url = url.unwrap();
    assert!(listens(&url));
    assert_eq!(entries(folder.path()).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("nothing is left", || !listens(&url) && entries(folder.path()).is_empty());
}

#[test]
fn starting_server_ends_if_its_process_is_killed() {
    const TEST: &str = "restate::starting_server_ends_if_its_process_is_killed";
    if std::env::var_os(CHILD).is_some() {
        return hold();
    }
    if RestateServer::shared().is_none() {
        return;
    }
    for milliseconds in (0..120).step_by(10) {
        let folder = tempfile::tempdir().unwrap();
        // Standard error is hidden, because a shell may report that the temporary folder does not exist any more.
        let mut child = child(TEST, folder.path()).stderr(Stdio::null()).spawn().unwrap();
        // The child is killed at different moments of its start.
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the folder is gone", || entries(folder.path()).is_empty());
        let path = folder.path().to_owned();
        drop(folder);
        // The launch shell may outlive the guard. It ends when it finds no folder.
        wait_until(&format!("ended, killed after {milliseconds} ms"), || !is_used(&path));
    }
}

/// Returns `true` if a process has its working folder inside `folder`. Reads `/proc`.
fn is_used(folder: &std::path::Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok())
        .any(|place| place.starts_with(folder))
}

/// Starts a server, and sleeps until this process is killed.
fn hold() {
    let server = RestateServer::start().unwrap();
    println!("at {}", server.admin_url());
    loop {
        std::thread::park();
    }
}
