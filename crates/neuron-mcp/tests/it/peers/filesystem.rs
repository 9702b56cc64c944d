//! Test of the client with the official filesystem server.

use std::path::Path;

use neuron_mcp::StdioConfig;
use neuron_testkit::mcp::Suite;
use serde_json::{Value, json};

use crate::peers::support::{builder, text};

#[tokio::test]
async fn files_are_accessible_only_inside_the_allowed_folder() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let inside = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    // The server compares resolved paths, so the path of the folder must not contain symbolic links.
    let folder = inside.path().canonicalize().unwrap();
    let program = suite.server_filesystem();
    let mut args = program.args;
    args.push(folder.display().to_string());
    let config = StdioConfig { command: program.program, args, env: Vec::new() };
    let client = builder().connect_stdio(config).await.unwrap();
    assert_eq!(client.list_all_tools().await.unwrap().len(), 14);

    let path = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let call = async |name: &str, arguments: Value| client.call_tool_json(name, arguments).await;
    let file = path(&folder, "note.txt");
    let written = call("write_file", json!({"path": file, "content": "grüße\n"})).await.unwrap();
    assert!(!written.is_error, "{written:?}");
    assert_eq!(std::fs::read_to_string(folder.join("note.txt")).unwrap(), "grüße\n");
    let read = call("read_text_file", json!({"path": file})).await.unwrap();
    assert_eq!(text(&read), "grüße\n");
    assert_eq!(read.structured_content, Some(json!({"content": "grüße\n"})));
    let listed = call("list_directory", json!({"path": path(&folder, "")})).await.unwrap();
    assert_eq!(text(&listed), "[FILE] note.txt");

    // A refused access is a result with `is_error`, which a model can react to.
    for (tool, arguments) in [
        ("read_text_file", json!({"path": path(outside.path(), "secret.txt")})),
        ("write_file", json!({"path": path(outside.path(), "new.txt"), "content": "new"})),
        ("read_text_file", json!({"path": path(&folder, "../secret.txt")})),
    ] {
        let refused = call(tool, arguments).await.unwrap();
        assert!(refused.is_error, "{refused:?}");
        assert!(text(&refused).contains("Access denied"), "{refused:?}");
    }
    assert!(!outside.path().join("new.txt").exists());
    client.close().await;
}
