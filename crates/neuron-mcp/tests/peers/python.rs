//! Tests of the server with the client of the Python SDK, over stdio and over HTTP.

mod server;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use neuron_mcp::HttpServerConfig;
use neuron_testkit::mcp::python_or_skip;
use serde_json::{Value, json};

/// Environment variable that makes the test binary run as the server.
const SERVE: &str = "NEURON_MCP_TEST_SERVE";

#[test]
fn python_client_with_handshake_works_over_stdio() {
    over_stdio("legacy");
}

#[test]
fn python_client_without_handshake_works_over_stdio() {
    over_stdio("auto");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_client_with_handshake_works_over_http() {
    over_http("legacy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_client_without_handshake_works_over_http() {
    over_http("auto").await;
}

/// Serves over stdio if the environment variable [`SERVE`] is set. Does nothing in an ordinary test run. The Python
/// client starts this test binary as its server.
#[test]
fn serves_over_stdio() {
    if std::env::var_os(SERVE).is_some() {
        let messages = File::options().write(true).open("/dev/fd/3").unwrap();
        rustix::stdio::dup2_stdout(messages).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(server::new().serve_stdio()).unwrap();
        // Exit here, so that the test harness does not write its summary to standard output.
        std::process::exit(0);
    }
}

/// Checks the Python client with the server over stdio. Does nothing if there is no Python with the SDK.
fn over_stdio(mode: &str) {
    let Some(python) = python_or_skip() else {
        return;
    };
    // The test harness also writes to standard output. The shell discards this output, and passes the pipe to the
    // client as descriptor 3.
    let shell = r#"exec "$0" --exact python::serves_over_stdio --nocapture 3>&1 >/dev/null"#;
    let program = std::env::current_exe().unwrap();
    let server = json!({
        "command": "/bin/sh",
        "args": ["-c", shell, program],
        "env": {SERVE: "1"},
    });
    assert_eq!(told(&python, mode, &server), expected(mode));
}

/// Checks the Python client with the server over HTTP. Does nothing if there is no Python with the SDK.
async fn over_http(mode: &'static str) {
    let Some(python) = python_or_skip() else {
        return;
    };
    let config = HttpServerConfig::new("127.0.0.1:0".parse().unwrap());
    let listening = server::new().bind_http(config).await.unwrap();
    let (url, shutdown) = (json!(listening.url()), listening.shutdown_token());
    let serving = tokio::spawn(listening.serve());
    let run = tokio::task::spawn_blocking(move || told(&python, mode, &url));
    assert_eq!(run.await.unwrap(), expected(mode));
    shutdown.cancel();
    serving.await.unwrap().unwrap();
}

/// Runs the Python client with a server, and returns its report. `server` is a URL, or the command that starts the
/// server. `mode` is `legacy` for version 2025-11-25 with a handshake, or `auto` for version 2026-07-28.
#[track_caller]
fn told(python: &Path, mode: &str, server: &Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/python/client.py");
    let mut command = Command::new(python);
    // `-P`: do not import modules from the folder of the script. `-B`: do not write bytecode files.
    command.args(["-P", "-B", script, mode]).arg(server.to_string());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Returns the expected report of the Python client.
fn expected(mode: &str) -> Value {
    let version = match mode {
        "legacy" => "2025-11-25",
        _ => "2026-07-28",
    };
    json!({
        "version": version,
        "server": {"name": "peer", "version": "1.2.3"},
        "instructions": "Use it well.",
        "tools": ["add", "ask", "fail", "think", "work"],
        "add": {"error": false, "text": "{\"sum\":42}", "structured": {"sum": 42}},
        "fail": {"error": true, "text": "not today", "structured": null},
        "unknown": -32602,
        "work": {"error": false, "text": "worked", "structured": null},
        "progress": [[1.0, 2.0, "half"], [2.0, 2.0, "all"]],
        "log": [["info", "work", "working"]],
        "ask": {"error": false, "text": "Ada is 36", "structured": null},
        "elicitation": {
            "message": "Who are you?",
            "fields": ["age", "name"],
        },
        "think": {"error": false, "text": "python-model: forty-two", "structured": null},
        "sampling": {"prompt": "What is 6 times 7?", "system": "Be brief.", "tokens": 20},
        "resources": ["docs://readme"],
        "readme": ["docs://readme", "text/plain", "Read me."],
        "templates": ["docs://{name}"],
        "other": ["docs://other", null, "About other."],
        "prompts": ["review"],
        "review": ["user", "Review main.rs."],
        "completion": ["rust", "ruby"],
    })
}
