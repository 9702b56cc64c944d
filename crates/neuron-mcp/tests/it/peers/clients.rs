//! Tests of the MCP server with client programs of other vendors, over stdio and over HTTP. The programs use the SDKs for
//! Python and TypeScript, FastMCP, the AI SDK, and Pydantic AI.

mod server;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use neuron_mcp::HttpServerConfig;
use neuron_testkit::mcp::{Suite, python_or_skip};
use serde_json::{Value, json};

/// Environment variable that makes the test binary run as the server.
const SERVE: &str = "NEURON_MCP_TEST_SERVE";

/// A client program of another vendor. The program uses each server feature that its SDK supports, and prints the
/// results as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Python { script: &'static str, mode: &'static str },
    Node { script: &'static str, package: &'static str },
}

const SDK: &str = "client.py";
const FASTMCP: &str = "fastmcp_client.py";
const PYDANTIC: &str = "pydantic_client.py";

const PYDANTIC_AI: Client = Client::Python { script: PYDANTIC, mode: "agent" };
const TYPESCRIPT_SDK: Client =
    Client::Node { script: "sdk_client.mjs", package: "@modelcontextprotocol/client" };
const AI_SDK: Client = Client::Node { script: "ai_sdk_client.mjs", package: "@ai-sdk/mcp" };
const OLDER_SDK: Client = Client::Python { script: SDK, mode: "legacy" };
const NEWEST_SDK: Client = Client::Python { script: SDK, mode: "auto" };
const OLDER_FASTMCP: Client = Client::Python { script: FASTMCP, mode: "legacy" };
const NEWEST_FASTMCP: Client = Client::Python { script: FASTMCP, mode: "auto" };

#[test]
fn python_sdk_with_handshake_works_over_stdio() {
    over_stdio(OLDER_SDK);
}

#[test]
fn python_sdk_without_handshake_works_over_stdio() {
    over_stdio(NEWEST_SDK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdk_with_handshake_works_over_http() {
    over_http(OLDER_SDK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdk_without_handshake_works_over_http() {
    over_http(NEWEST_SDK).await;
}

#[test]
fn fastmcp_with_handshake_works_over_stdio() {
    over_stdio(OLDER_FASTMCP);
}

#[test]
fn fastmcp_without_handshake_works_over_stdio() {
    over_stdio(NEWEST_FASTMCP);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastmcp_with_handshake_works_over_http() {
    over_http(OLDER_FASTMCP).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastmcp_without_handshake_works_over_http() {
    over_http(NEWEST_FASTMCP).await;
}

#[test]
fn ai_sdk_works_over_stdio() {
    over_stdio(AI_SDK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ai_sdk_works_over_http() {
    over_http(AI_SDK).await;
}

#[test]
fn typescript_sdk_works_over_stdio() {
    over_stdio(TYPESCRIPT_SDK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_sdk_works_over_http() {
    over_http(TYPESCRIPT_SDK).await;
}

#[test]
fn agent_of_pydantic_ai_works_over_stdio() {
    over_stdio(PYDANTIC_AI);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_pydantic_ai_works_over_http() {
    over_http(PYDANTIC_AI).await;
}

/// Acts as a server over stdio for the client programs, which start this test binary with the environment variable
/// [`SERVE`]. Does nothing if the variable is not set.
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

/// Asserts that a client program gets the expected results from the server over stdio. Does nothing if the client
/// program is not available.
fn over_stdio(client: Client) {
    let Some(command) = client.command() else {
        return;
    };
    // The test harness writes to standard output first, so the server writes to another descriptor. Node.js connects
    // its child processes by sockets, which cannot be opened by their path, so `cat` provides a pipe.
    let shell =
        r#"{ "$0" --exact peers::clients::serves_over_stdio --nocapture 3>&1 >/dev/null; } | cat"#;
    let program = std::env::current_exe().unwrap();
    let server = json!({
        "command": "/bin/sh",
        "args": ["-c", shell, program],
        "env": {SERVE: "1"},
    });
    assert_eq!(seen(command, &server), client.expected());
}

/// Asserts that a client program gets the expected results from the server over HTTP. Does nothing if the client
/// program is not available.
async fn over_http(client: Client) {
    let Some(command) = client.command() else {
        return;
    };
    let config = HttpServerConfig::new("127.0.0.1:0".parse().unwrap());
    let listening = server::new().bind_http(config).await.unwrap();
    let (url, shutdown) = (json!(listening.url()), listening.shutdown_token());
    let serving = tokio::spawn(listening.serve());
    let run = tokio::task::spawn_blocking(move || seen(command, &url));
    assert_eq!(run.await.unwrap(), client.expected());
    shutdown.cancel();
    serving.await.unwrap().unwrap();
}

/// Runs a client program and returns the results that it prints. `server` is the URL of the server, or the command that
/// starts the server.
#[track_caller]
fn seen(mut client: Command, server: &Value) -> Value {
    let output = client.arg(server.to_string()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

impl Client {
    /// Returns the command that runs the client program. The caller must add one argument, the URL or the command of
    /// the server as JSON. Returns `None` if the program is not available on this machine.
    fn command(self) -> Option<Command> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers"));
        match self {
            Self::Python { script, mode } => {
                let mut command = Command::new(python_or_skip()?);
                // `-P`: do not import modules from the folder of the script. `-B`: do not write bytecode files.
                command.args(["-P", "-B"]).arg(folder.join("python").join(script)).arg(mode);
                Some(command)
            }
            Self::Node { script, package } => {
                let suite = Suite::or_skip()?;
                let mut command = Command::new(suite.node());
                command.arg(folder.join("node").join(script)).arg(suite.package(package));
                Some(command)
            }
        }
    }

    fn expected(self) -> Value {
        match self {
            Self::Python { script: PYDANTIC, .. } => expected_of_pydantic_ai(),
            Self::Python { mode: "legacy", .. } => expected("2025-11-25"),
            Self::Python { script, .. } => {
                let mut expected = expected("2026-07-28");
                if script == FASTMCP {
                    // FastMCP requests log messages of every level, so it also receives the `debug` message.
                    let messages = expected["log"].as_array_mut().unwrap();
                    messages.insert(0, json!(["debug", "work", "not asked for"]));
                }
                expected
            }
            AI_SDK => expected_of_the_ai_sdk(),
            Self::Node { .. } => expected_of_the_typescript_sdk(),
        }
    }
}

/// Returns the expected results of a client program that uses every feature of the server. `version` is the protocol
/// version.
fn expected(version: &str) -> Value {
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

/// Returns the expected results of the AI SDK's client program. This SDK supports no sampling, completions, log
/// messages or progress.
fn expected_of_the_ai_sdk() -> Value {
    let mut expected = expected("2026-07-28");
    let results = expected.as_object_mut().unwrap();
    for name in ["sampling", "log", "progress", "unknown", "completion"] {
        results.remove(name);
    }
    // The server refuses the call of a tool that needs sampling: "Missing required client capability".
    results["think"] = json!(-32021);
    expected
}

/// Returns the expected results of the TypeScript SDK's client program, which asks for no progress.
fn expected_of_the_typescript_sdk() -> Value {
    let mut expected = expected("2026-07-28");
    expected.as_object_mut().unwrap().remove("progress");
    expected["think"]["text"] = json!("node-model: forty-two");
    expected
}

/// Returns what an agent of Pydantic AI gets for its calls. It sees errors of tools as results.
fn expected_of_pydantic_ai() -> Value {
    let mut expected = expected("2026-07-28");
    let results = expected.as_object_mut().unwrap();
    results.retain(|name, _| ["tools", "progress", "elicitation", "sampling"].contains(&&**name));
    results["sampling"].as_object_mut().unwrap().remove("tokens");
    for (name, result) in [
        ("add", json!({"sum": 42})),
        ("work", json!("worked")),
        ("fail", json!("not today")),
        ("ask", json!("Ada is 36")),
        ("think", json!("function:sampled:: forty-two")),
    ] {
        results.insert(name.to_owned(), json!(["result", result]));
    }
    results.insert("output".to_owned(), json!("done"));
    expected
}
