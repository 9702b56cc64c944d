//! Tests of `McpClient` with a scripted server, which the test drives message by message.

mod asked;
mod connecting;
mod http;
mod limits;
mod listening;
mod lists;
mod methods;
mod rounds;
mod tasks;

use neuron_mcp::{McpClient, McpClientBuilder};
use serde_json::{Value, json};

use crate::script::Script;

/// Connects a client with version 2025-11-25 to a scripted server that declares tools.
pub(crate) async fn connected(builder: McpClientBuilder) -> (McpClient, Script) {
    connected_to(builder, json!({ "tools": {} })).await
}

/// Connects a client with version 2025-11-25 to a scripted server with these capabilities.
pub(crate) async fn connected_to(
    builder: McpClientBuilder,
    capabilities: Value,
) -> (McpClient, Script) {
    let (mut server, reader, writer) = Script::new();
    let greeting = server.shake_hands("2025-11-25", capabilities);
    let (client, _) = tokio::join!(builder.connect_io(reader, writer), greeting);
    (client.unwrap(), server)
}

/// Connects a client with version 2026-07-28 to a scripted server with these capabilities.
pub(crate) async fn connected_to_modern(
    builder: McpClientBuilder,
    capabilities: Value,
) -> (McpClient, Script) {
    let (mut server, reader, writer) = Script::new();
    let greeting = server.tell_versions(capabilities);
    let (client, _) = tokio::join!(builder.connect_io(reader, writer), greeting);
    (client.unwrap(), server)
}
