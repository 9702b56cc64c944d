//! The SDK for Python as a client of our server, over stdio and over HTTP.

mod server;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use neuron_mcp::HttpServerConfig;
use neuron_testkit::mcp::python_or_skip;
use serde_json::{Value, json};

/// Tells this program, started again, to serve.
const SERVE: &str = "NEURON_MCP_TEST_SERVE";

#[test]
fn a_client_of_an_older_version_over_stdio() {
    over_stdio("legacy");
}

#[test]
fn a_client_of_the_newest_version_over_stdio() {
    over_stdio("auto");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_an_older_version_over_http() {
    over_http("legacy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_newest_version_over_http() {
    over_http("auto").await;
}

/// The server for the client that starts it: this program, with one test that is none then.
#[test]
fn serves_over_stdio() {
    if std::env::var_os(SERVE).is_some() {
        let messages = File::options().write(true).open("/dev/fd/3").unwrap();
        rustix::stdio::dup2_stdout(messages).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(server::new().serve_stdio()).unwrap();
        // What the harness says at its end is no message either.
        std::process::exit(0);
    }
}

fn over_stdio(mode: &str) {
    let Some(python) = python_or_skip() else {
        return;
    };
    // The harness writes to standard output before the test does: our messages take another way.
    let shell = r#"exec "$0" --exact python::serves_over_stdio --nocapture 3>&1 >/dev/null"#;
    let program = std::env::current_exe().unwrap();
    let server = json!({
        "command": "/bin/sh",
        "args": ["-c", shell, program],
        "env": {SERVE: "1"},
    });
    assert_eq!(told(&python, mode, &server), expected(mode));
}

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

/// What the client tells of its session with a server: an address, or how the server is started.
#[track_caller]
fn told(python: &Path, mode: &str, server: &Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/python/client.py");
    let mut command = Command::new(python);
    // `-P`: what lies beside the script is no module. `-B`: nothing is written there.
    command.args(["-P", "-B", script, mode]).arg(server.to_string());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

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
