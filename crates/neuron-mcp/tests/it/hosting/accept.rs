//! Test of a server that temporarily cannot accept connections for lack of file descriptors.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::raw::{Connection, modern_call, within};
use super::server::start;

/// Environment variable that makes the test `in_a_process_with_few_files` run. Set only in a child process with a low
/// limit of open files.
const FEW: &str = "NEURON_MCP_TEST_FEW_FILES";

/// Runs the test `in_a_process_with_few_files` in a child process that may open at most 40 files.
#[test]
fn server_accepts_again_after_it_ran_out_of_descriptors() {
    let test = "hosting::accept::in_a_process_with_few_files";
    let status = Command::new("sh")
        .args(["-c", r#"ulimit -n 40 && exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env(FEW, "1")
        .status();
    assert!(status.unwrap().success());
}

/// Checks that the server accepts a waiting connection once file descriptors are free again. Runs only in a child
/// process with few descriptors, and does nothing in an ordinary test run.
#[tokio::test]
async fn in_a_process_with_few_files() {
    if std::env::var_os(FEW).is_none() {
        return;
    }
    let server = start(|config| config).await;
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(files.len() > 5, "{}", files.len());
    // Free one descriptor for the client's socket. None is left for the server's socket.
    files.pop();
    let mut connection = Connection::open(server.addr).await;
    connection.write(modern_call("echo", &json!({ "text": "on" })).to_bytes()).await;
    let mut response = Box::pin(connection.read_to_end());
    let early = tokio::time::timeout(Duration::from_millis(300), &mut response).await;
    assert!(early.is_err(), "{early:?}");

    drop(files);
    assert_eq!(within(response).await.unwrap().tool_text(), "on");
}
