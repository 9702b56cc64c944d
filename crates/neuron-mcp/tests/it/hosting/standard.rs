//! Tests of a server over standard input and output. The server is this test binary, started as a child process.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::raw::{call_message, initialize_message, within};
use super::server::{Waiting, mcp_server};

/// Environment variable that makes the test binary run as the server.
const SERVER: &str = "NEURON_MCP_TEST_STDIO_SERVER";

/// Serves over stdio in the child process that [`Program::start`] starts. Does nothing in an ordinary test run. The
/// server shuts down when the tool `wait` is called.
#[tokio::test]
async fn in_a_process_that_is_the_server() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    let waiting = Waiting::default();
    let shutdown = CancellationToken::new();
    let server = mcp_server(&waiting).with_shutdown(shutdown.clone());
    tokio::spawn(async move {
        waiting.began.notified().await;
        shutdown.cancel();
    });
    server.serve_stdio().await.unwrap();
}

/// A server process and its pipes.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    async fn start() -> Self {
        let test = "hosting::standard::in_a_process_that_is_the_server";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(SERVER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, input, output };
        program.send(&initialize_message()).await;
        assert_eq!(program.next().await["result"]["serverInfo"]["name"], "hosted");
        program
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        within(self.input.as_mut().unwrap().write_all(line.as_bytes())).await.unwrap();
    }

    /// Reads the next message. Skips text before the first `{`, because the test harness also writes to standard
    /// output.
    async fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let length = within(self.output.read_line(&mut line)).await.unwrap();
            assert_ne!(length, 0, "the server ended");
            if let Some(start) = line.find('{') {
                return serde_json::from_str(&line[start..]).unwrap();
            }
        }
    }

    /// Waits until the process has ended.
    async fn ended(mut self) -> ExitStatus {
        within(self.child.wait()).await.unwrap()
    }
}

#[tokio::test]
async fn stdio_server_ends_when_its_input_closes() {
    let mut program = Program::start().await;
    for text in ["one", &"long ".repeat(100_000)] {
        program.send(&call_message("echo", &json!({ "text": text }))).await;
        assert_eq!(program.next().await["result"]["content"][0]["text"], text);
    }
    program.input = None;
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn stdio_server_ends_after_shutdown_with_open_input() {
    let mut program = Program::start().await;
    program.send(&call_message("wait", &json!({}))).await;
    assert!(program.next().await["error"].is_object());
    let input = program.input.take();
    assert!(program.ended().await.success());
    drop(input);
}
