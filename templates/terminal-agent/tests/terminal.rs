//! Runs the program against a local server that sends scripted responses.

use std::path::Path;
use std::process::Stdio;
#[cfg(unix)]
use std::time::Duration;

use neuron_testing::{AnthropicServer, Reply};
use serde_json::json;
#[cfg(unix)]
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// Starts the program in a folder.
fn start(folder: &Path, server: &AnthropicServer) -> Child {
    Command::new(env!("CARGO_BIN_EXE_agent"))
        .current_dir(folder)
        .env("ANTHROPIC_API_KEY", AnthropicServer::API_KEY)
        .env("ANTHROPIC_BASE_URL", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs the program with the lines as its input, and returns the output.
async fn chat(folder: &Path, server: &AnthropicServer, lines: &str) -> String {
    let mut program = start(folder, server);
    program.stdin.take().unwrap().write_all(lines.as_bytes()).await.unwrap();
    let output = program.wait_with_output().await.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn agent_reads_files_and_asks_before_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "milk").unwrap();
    let write =
        |id| Reply::tool_call(id, "write_file", json!({"path": "copy.txt", "text": "milk"}));
    let server = AnthropicServer::start([
        Reply::tool_call("call_1", "read_file", json!({"path": "notes.txt"})),
        Reply::text("It says milk."),
        write("call_2"),
        Reply::text("I did not write it."),
        write("call_3"),
        Reply::text("Written."),
    ])
    .await
    .unwrap();

    let output = chat(folder.path(), &server, "What do my notes say?\nCopy them\nn\n").await;
    assert!(output.contains("It says milk."), "{output}");
    assert!(output.contains("Allow write_file"), "{output}");
    assert!(!folder.path().join("copy.txt").exists());

    // The next start continues the stored conversation.
    let output = chat(folder.path(), &server, "Copy them now\ny\n").await;
    assert!(output.contains("Continuing with 8 messages."), "{output}");
    assert!(output.contains("Written."), "{output}");
    assert_eq!(std::fs::read_to_string(folder.path().join("copy.txt")).unwrap(), "milk");
    server.assert_complete();
}

#[tokio::test]
async fn paths_outside_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["../secret.txt", "/etc/passwd", "a/../../secret.txt"] {
        let server = AnthropicServer::start([
            Reply::tool_call("call_1", "read_file", json!({ "path": path })),
            Reply::text("I may not."),
        ])
        .await
        .unwrap();
        std::fs::remove_dir_all(folder.path().join(".agent")).ok();
        chat(folder.path(), &server, "Read it\n").await;
        let result = server.bodies()[1]["messages"][2].to_string();
        assert!(result.contains("is not below the current folder"), "{result}");
    }
}

#[tokio::test]
async fn the_next_start_asks_about_a_call_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let input = json!({"path": "new.txt", "text": "milk"});
    let server = AnthropicServer::start([
        Reply::tool_call("call_1", "write_file", input),
        Reply::text("Written."),
    ])
    .await
    .unwrap();
    // The input ends at the question.
    let output = chat(folder.path(), &server, "Write it\n").await;
    assert!(output.ends_with("(y/n) "), "{output}");
    let output = chat(folder.path(), &server, "y\n").await;
    assert!(output.contains("Written."), "{output}");
    assert!(folder.path().join("new.txt").exists());
}

/// The output of a program.
#[cfg(unix)]
struct Output {
    pipe: tokio::process::ChildStdout,
    /// Output that was read and is after the last text that was found.
    rest: String,
}

#[cfg(unix)]
impl Output {
    /// Reads until the output contains `text`.
    async fn read_until(&mut self, text: &str) {
        while !self.rest.contains(text) {
            let mut piece = [0; 1024];
            let read = tokio::time::timeout(Duration::from_secs(60), self.pipe.read(&mut piece));
            let length = read.await.expect("the program prints its output").unwrap();
            assert_ne!(length, 0, "the program ended: {}", self.rest);
            self.rest.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
        let end = self.rest.find(text).unwrap() + text.len();
        self.rest.drain(..end);
    }
}

#[cfg(unix)]
async fn press_ctrl_c(program: &Child) {
    let id = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_stops_a_response_and_at_the_prompt_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let server = AnthropicServer::start([
        Reply::text("one two three").chunk_chars(4).hang_after(4),
        Reply::text("Here I am."),
    ])
    .await
    .unwrap();
    let mut program = start(folder.path(), &server);
    // The input stays open, so the program does not end because of it.
    let (mut input, pipe) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    let mut output = Output { pipe, rest: String::new() };
    input.write_all(b"Tell me\n").await.unwrap();
    output.read_until("one").await;
    press_ctrl_c(&program).await;
    output.read_until("[cancelled]").await;
    input.write_all(b"Are you there?\n").await.unwrap();
    output.read_until("Here I am.").await;
    output.read_until("you: ").await;
    press_ctrl_c(&program).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), program.wait()).await;
    assert!(ended.expect("the program ends").unwrap().success());
}
