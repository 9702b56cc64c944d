//! A server over standard input and output: it is a process of its own, this test's program.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::raw::{call_message, initialize_message, within};
use super::server::{Waiting, mcp_server};

/// What tells the process that it is the server.
const SERVER: &str = "NEURON_MCP_TEST_STDIO_SERVER";

/// The server. A call of `wait` shuts it down.
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

    /// The next message. The harness of the tests writes to standard output, too, before the first.
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

    async fn ended(mut self) -> ExitStatus {
        within(self.child.wait()).await.unwrap()
    }
}

#[tokio::test]
async fn a_program_serves_until_its_client_closes() {
    let mut program = Program::start().await;
    for text in ["one", &"long ".repeat(100_000)] {
        program.send(&call_message("echo", &json!({ "text": text }))).await;
        assert_eq!(program.next().await["result"]["content"][0]["text"], text);
    }
    program.input = None;
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn a_program_that_was_shut_down_ends_though_its_input_is_open() {
    let mut program = Program::start().await;
    program.send(&call_message("wait", &json!({}))).await;
    assert!(program.next().await["error"].is_object());
    let input = program.input.take();
    assert!(program.ended().await.success());
    drop(input);
}
