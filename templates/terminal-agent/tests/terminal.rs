//! Runs the program against a local server that sends scripted responses.

use std::path::Path;
use std::process::Stdio;

use neuron_testing::{AnthropicServer, Reply};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_stops_a_response_and_the_conversation_continues() {
    let folder = tempfile::tempdir().unwrap();
    let server = AnthropicServer::start([
        Reply::text("one two three").chunk_chars(4).hang_after(4),
        Reply::text("Here I am."),
    ])
    .await
    .unwrap();
    let mut program = start(folder.path(), &server);
    let (mut input, mut output) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    input.write_all(b"Tell me\n").await.unwrap();
    let mut text = String::new();
    while !text.contains("one") {
        let mut piece = [0; 1024];
        let length = output.read(&mut piece).await.unwrap();
        assert_ne!(length, 0, "the program ended: {text}");
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    let id = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    input.write_all(b"Are you there?\n").await.unwrap();
    drop(input);
    output.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("[cancelled]") && text.contains("Here I am."), "{text}");
    assert!(program.wait().await.unwrap().success());
}
