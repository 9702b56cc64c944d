//! A server without any SDK: this test binary, run once more, writes lines that are exactly as they stand here.

mod behaviours;
mod wire;

use neuron_mcp::{McpClient, McpClientBuilder, McpError, McpVersion, StdioConfig};

pub(crate) use self::behaviours::FLOOD;
pub(crate) use self::wire::Wire;
use crate::alone::LIMIT;

/// Says how a server behaves, and so that this process is one.
const BEHAVIOUR: &str = "HOSTILE_SERVER";

/// The server's process: not a test.
#[test]
fn serve() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    behaviours::run(&behaviour, &mut Wire::of_this_process());
    std::process::exit(0);
}

/// How a server of this behaviour is started.
pub(crate) fn program(behaviour: &str) -> StdioConfig {
    shell("", behaviour)
}

/// The same, with something that the shell does before. The harness of the tests writes to its output, too:
/// that is thrown away, and the server's lines go through another descriptor.
pub(crate) fn shell(before: &str, behaviour: &str) -> StdioConfig {
    let start = r#"exec "$0" server::serve --exact --nocapture 3>&1 >/dev/null"#;
    let test = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    StdioConfig {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), format!("{before}{start}"), test],
        env: vec![(BEHAVIOUR.to_owned(), behaviour.to_owned())],
    }
}

/// A client whose limits are those of a whole test, and that begins with a handshake.
pub(crate) fn client() -> McpClientBuilder {
    McpClient::builder()
        .versions([McpVersion::V2025_11_25])
        .request_timeout(LIMIT)
        .connect_timeout(LIMIT)
}

/// A client of a server of this behaviour.
pub(crate) async fn connect(behaviour: &str) -> McpClient {
    client().connect_stdio(program(behaviour)).await.unwrap()
}

/// The text that a tool answers.
pub(crate) async fn call(client: &McpClient, tool: &str) -> Result<String, McpError> {
    let output = client.call_tool(tool, serde_json::Map::new()).await?;
    let [neuron_types::ContentItem::Text(text)] = &output.content[..] else {
        panic!("{:?}", output.content);
    };
    Ok(text.clone())
}

/// The same for a server that is about to end, or has ended: its end may be seen only by the call that it breaks.
pub(crate) async fn call_after_the_end(client: &McpClient, tool: &str) -> Result<String, McpError> {
    match call(client, tool).await {
        Err(McpError::Transport(_)) => call(client, tool).await,
        result => result,
    }
}
