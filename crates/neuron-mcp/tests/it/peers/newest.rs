//! Tests of the MCP client with servers of the newest protocol: one of the TypeScript SDK, one for Git from PyPI, and one
//! of FastMCP whose calls are tasks.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpClient, McpClientBuilder,
    McpError, McpVersion, StdioConfig,
};
use neuron_testkit::mcp::{Suite, python_or_skip};
use neuron_types::{ProgressReporter, ToolContext};
use serde_json::{Value, json};

use crate::peers::support::{builder, text};

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers");

async fn connect(builder: McpClientBuilder, command: &Path, args: &[&str]) -> McpClient {
    let command = command.display().to_string();
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let client = builder.connect_stdio(StdioConfig { command, args, env: Vec::new() }).await;
    let client = client.unwrap();
    assert_eq!(client.version(), McpVersion::V2026_07_28);
    client
}

/// An elicitation handler that answers each form with the same values, and records the messages.
#[derive(Debug, Clone)]
struct User {
    answer: Value,
    asked: Arc<Mutex<Vec<String>>>,
}

impl User {
    fn who_answers(answer: Value) -> Self {
        Self { answer, asked: Arc::default() }
    }

    #[track_caller]
    fn assert_was_asked(&self, expected: &[&str]) {
        assert_eq!(*self.asked.lock().unwrap(), expected);
    }
}

impl ElicitationHandler for User {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, .. } = request else { panic!() };
        self.asked.lock().unwrap().push(message);
        Ok(ElicitationResponse::Accept(self.answer.clone()))
    }
}

#[derive(Debug, Clone, Default)]
struct Progress(Arc<Mutex<Vec<(f64, String)>>>);

impl ProgressReporter for Progress {
    fn report(&self, progress: f64, _: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push((progress, message.unwrap_or_default().to_owned()));
    }
}

#[tokio::test]
async fn every_feature_of_the_typescript_sdk_works() {
    let Some(suite) = Suite::or_skip() else { return };
    let script = format!("{PEERS}/node/sdk_server.mjs");
    let package = suite.package("@modelcontextprotocol/server").display().to_string();
    let user = User::who_answers(json!({"kind": "pears"}));
    let builder = builder().elicitation(user.clone());
    let client = connect(builder, suite.node(), &[&script, &package]).await;
    assert_eq!(client.server_info().name, "orchard");
    assert_eq!(client.instructions().as_deref(), Some("Pick them ripe."));

    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["weigh", "drop", "pick", "sort"]);
    let call = async |name: &str, input: Value| client.call_tool_json(name, input).await.unwrap();
    let weighed = call("weigh", json!({"a": 1, "b": 2})).await;
    assert_eq!(weighed.structured_content, Some(json!({"sum": 3})));
    let refused = call("weigh", json!({"a": 1})).await;
    assert!(refused.is_error, "{refused:?}");
    let dropped = call("drop", json!({})).await;
    assert_eq!((dropped.is_error, text(&dropped)), (true, "it fell".to_owned()));
    assert_eq!(text(&call("sort", json!({})).await), "accept: pears");
    user.assert_was_asked(&["Which kind?"]);

    let progress = Progress::default();
    let ctx = ToolContext {
        progress_reporter: Some(Arc::new(progress.clone())),
        ..ToolContext::default()
    };
    assert_eq!(text(&client.call_tool_in("pick", json!({}), &ctx).await.unwrap()), "picked");
    let expected = [(1.0, "apple 1".to_owned()), (2.0, "apple 2".to_owned())];
    assert_eq!(*progress.0.lock().unwrap(), expected);

    let read = async |uri: &str| client.read_resource(uri).await.unwrap()[0].text.clone();
    assert_eq!(read("orchard://map").await.as_deref(), Some("rows of trees"));
    assert_eq!(read("orchard://tree/old").await.as_deref(), Some("the tree old"));
    let prompt = client.get_prompt("advise", [("fruit".to_owned(), "figs".to_owned())].into());
    let message = &prompt.await.unwrap().messages[0];
    assert!(format!("{:?}", message.content).contains("How do I grow figs?"), "{message:?}");
    client.close().await;
}

/// The first start of a server takes long if its packages have to be downloaded.
#[tokio::test]
async fn server_that_starts_slowly_is_used() {
    let Some(python) = python_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    std::fs::write(folder.path().join("a.txt"), "first\n").unwrap();
    let repository = folder.path().display().to_string();
    let shell = r#"sleep 12; exec "$0" -m mcp_server_git --repository "$1""#;
    let args = ["-c", shell, &python.display().to_string(), &repository];
    let client = connect(builder(), Path::new("/bin/sh"), &args).await;
    let call = async |name: &str, input: Value| {
        let output = client.call_tool_json(name, input).await.unwrap();
        assert!(!output.is_error, "{output:?}");
        text(&output)
    };
    let status = call("git_status", json!({"repo_path": repository})).await;
    assert!(status.contains("a.txt"), "{status}");
    call("git_add", json!({"repo_path": repository, "files": ["a.txt"]})).await;
    let staged = call("git_diff_staged", json!({"repo_path": repository})).await;
    assert!(staged.contains("+first"), "{staged}");
    client.close().await;
}

#[tokio::test]
async fn tasks_of_fastmcp_are_followed_to_their_end() {
    let Some(python) = python_or_skip() else { return };
    let script = format!("{PEERS}/python/kiln_server.py");
    let user = User::who_answers(json!({"color": "red"}));
    let builder = builder().elicitation(user.clone());
    let client = connect(builder, &python, &["-P", "-B", &script]).await;
    let call = async |name: &str, input: Value| client.call_tool_json(name, input).await.unwrap();
    let fired = call("fire", json!({"seconds": 0.2})).await;
    assert_eq!(fired.structured_content, Some(json!({"fired": true})));
    let cracked = call("crack", json!({})).await;
    assert!(cracked.is_error && text(&cracked).contains("it cracked"), "{cracked:?}");
    assert_eq!(text(&call("glaze", json!({})).await), "accept: red");
    user.assert_was_asked(&["Which color?"]);

    // A call that is dropped ends its task.
    let dropped = client.call_tool_json("fire", json!({"seconds": 1.5}));
    assert!(tokio::time::timeout(Duration::from_millis(500), dropped).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let finished = call("finished", json!({})).await;
    assert_eq!(finished.structured_content, Some(json!({"fired": [0.2]})));
    client.close().await;
}
