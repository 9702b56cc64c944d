//! A hostile server over stdio. This test binary, started as a child process, acts as the server. It does not use the
//! SDK, so that the tests control every byte of its output.

mod behaviours;
mod wire;

use neuron_mcp::{McpClient, McpClientBuilder, McpError, McpVersion, StdioConfig};

pub(crate) use self::behaviours::FLOOD;
pub(crate) use self::wire::Wire;
use crate::hostile::alone::LIMIT;

/// Environment variable with the name of a behaviour. Makes the test binary run as a server with this behaviour.
const BEHAVIOUR: &str = "HOSTILE_SERVER";

/// Runs the server if the environment variable [`BEHAVIOUR`] is set. Does nothing in an ordinary test run.
#[test]
fn serve() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    behaviours::run(&behaviour, &mut Wire::of_this_process());
    std::process::exit(0);
}

/// Returns the command that starts a server with this behaviour.
pub(crate) fn program(behaviour: &str) -> StdioConfig {
    shell("", behaviour)
}

/// Returns the command of a server with this behaviour. The shell commands in `before` run before the server.
///
/// The server writes its messages to descriptor 3, which is the pipe to the client. The standard output of the test
/// binary is discarded, because the test harness prints to it.
pub(crate) fn shell(before: &str, behaviour: &str) -> StdioConfig {
    let start = r#"exec "$0" hostile::server::serve --exact --nocapture 3>&1 >/dev/null"#;
    let test = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    StdioConfig {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), format!("{before}{start}"), test],
        env: vec![(BEHAVIOUR.to_owned(), behaviour.to_owned())],
    }
}

/// Returns a client builder with protocol version 2025-11-25. The request and connect timeouts are [`LIMIT`], the time
/// limit of a whole test.
pub(crate) fn client() -> McpClientBuilder {
    McpClient::builder()
        .versions([McpVersion::V2025_11_25])
        .request_timeout(LIMIT)
        .connect_timeout(LIMIT)
}

/// Starts a server with this behaviour, and connects a client to it.
pub(crate) async fn connect(behaviour: &str) -> McpClient {
    client().connect_stdio(program(behaviour)).await.unwrap()
}

/// Calls a tool without arguments, and returns the text of the result. Panics if the result is not one text item.
pub(crate) async fn call(client: &McpClient, tool: &str) -> Result<String, McpError> {
    let output = client.call_tool(tool, serde_json::Map::new()).await?;
    let [neuron_types::ContentItem::Text(text)] = &output.content[..] else {
        panic!("{:?}", output.content);
    };
    Ok(text.clone())
}

/// Calls a tool of a server that is about to end or has ended. Repeats the call once after a transport error, because
/// the client may notice the end only when a call fails. The second call reconnects.
pub(crate) async fn call_after_the_end(client: &McpClient, tool: &str) -> Result<String, McpError> {
    match call(client, tool).await {
        Err(McpError::Transport(_)) => call(client, tool).await,
        result => result,
    }
}
