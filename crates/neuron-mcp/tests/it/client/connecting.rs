//! Tests of connecting, including the negotiation of the protocol version and its failures.

use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, HttpConfig, McpClient, McpError,
    McpImplementation, McpRoot, McpVersion, SamplingHandler, SamplingRequest, SamplingResponse,
    StdioConfig,
};
use serde_json::{Value, json};

use super::{connected, connected_to_modern};
use crate::script::{Script, said, text};

#[tokio::test]
async fn server_without_discover_gets_a_handshake() {
    let (client, mut server) = connected(McpClient::builder()).await;
    assert_eq!(client.version(), McpVersion::V2025_11_25);
    assert_eq!(client.server_info().title.as_deref(), Some("A script"));
    assert_eq!(client.instructions().as_deref(), Some("Be kind."));
    assert!(!client.is_closed());
    let calling = client.call_tool_json("greet", json!({ "whom": "you" }));
    let serving = async {
        let call = server.expect("tools/call").await;
        assert_eq!(call["params"]["name"], "greet");
        assert_eq!(call["params"]["arguments"], json!({ "whom": "you" }));
        server.reply(&call, said("hello")).await;
    };
    let (output, ()) = tokio::join!(calling, serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test]
async fn request_to_2026_server_carries_version_and_client_info() {
    let implementation = McpImplementation {
        name: "tester".to_owned(),
        version: "7".to_owned(),
        ..Default::default()
    };
    let builder = McpClient::builder().implementation(implementation);
    let (client, mut server) = connected_to_modern(builder, json!({ "tools": {} })).await;
    assert_eq!(client.version(), McpVersion::V2026_07_28);
    assert_eq!(client.server_info().name, "script");
    let serving = async {
        let call = server.expect("tools/call").await;
        let meta = &call["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{call}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "tester", "{call}");
        server.reply(&call, said("hello")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test]
async fn only_configured_versions_are_negotiated() {
    let (mut server, reader, writer) = Script::new();
    let builder = McpClient::builder().versions([McpVersion::V2024_11_05, McpVersion::V2025_06_18]);
    let serving = async {
        let hello = server.expect("initialize").await;
        assert_eq!(hello["params"]["protocolVersion"], "2025-06-18");
        server.welcome(&hello, "2024-11-05", json!({})).await;
    };
    let (client, ()) = tokio::join!(builder.connect_io(reader, writer), serving);
    assert_eq!(client.unwrap().version(), McpVersion::V2024_11_05);
}

#[tokio::test]
async fn server_with_an_unsupported_version_is_refused() {
    for version in ["2025-03-26", "1999-12-31"] {
        let (mut server, reader, writer) = Script::new();
        let builder = McpClient::builder().versions([McpVersion::V2025_11_25]);
        let serving = server.shake_hands(version, json!({}));
        let (client, _) = tokio::join!(builder.connect_io(reader, writer), serving);
        let error = client.unwrap_err();
        assert!(
            matches!(&error, McpError::Initialization(text) if text.contains(version)),
            "{error}"
        );
        assert!(server.next().await.is_none(), "the client is gone");
    }
}

#[tokio::test]
async fn empty_version_list_is_an_error() {
    let (_server, reader, writer) = Script::new();
    let error = McpClient::builder().versions([]).connect_io(reader, writer).await.unwrap_err();
    assert!(matches!(error, McpError::Initialization(_)), "{error}");
}

#[tokio::test]
async fn refused_handshake_error_contains_the_reason() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        let hello = server.expect("server/discover").await;
        server.refuse(&hello, -32601, "what is that?").await;
        let hello = server.expect("initialize").await;
        server.refuse(&hello, -32000, "we are full").await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    let error = client.unwrap_err();
    assert!(
        matches!(&error, McpError::Initialization(text) if text.contains("we are full")),
        "{error}"
    );
}

#[tokio::test]
async fn server_that_disconnects_immediately_is_an_error() {
    let (server, reader, writer) = Script::new();
    drop(server);
    let error = McpClient::builder().connect_io(reader, writer).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn server_that_ignores_discover_gets_a_handshake() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        let ignored = server.expect("server/discover").await;
        let hello = server.expect("initialize").await;
        // The late response to `server/discover` must not disturb the handshake.
        server.refuse(&ignored, -32601, "what is that?").await;
        server.welcome(&hello, "2025-11-25", json!({})).await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    assert_eq!(client.unwrap().version(), McpVersion::V2025_11_25);
}

/// A server of version 2026-07-28 that needs 20 seconds to start, for example because `npx` downloads it. It then finds
/// `server/discover` and `initialize` in its input.
#[tokio::test(start_paused = true)]
async fn late_response_to_discover_is_used() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Refusal {
        Before,
        After,
        Never,
    }
    for refusal in [Refusal::Before, Refusal::After, Refusal::Never] {
        let (mut server, reader, writer) = Script::new();
        let serving = async {
            let discover = server.expect("server/discover").await;
            let initialize = server.expect("initialize").await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            if refusal == Refusal::Before {
                server.refuse(&initialize, -32022, "another version").await;
            }
            server.describe(&discover, json!({ "tools": {} })).await;
            if refusal == Refusal::After {
                server.refuse(&initialize, -32022, "another version").await;
            }
            // The rest of the handshake, `notifications/initialized`, is not sent.
            let call = server.expect("tools/call").await;
            let meta = &call["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{call}");
            server.reply(&call, said("hello")).await;
        };
        let calling = async {
            let client = McpClient::builder().connect_io(reader, writer).await.unwrap();
            assert_eq!(client.version(), McpVersion::V2026_07_28, "{refusal:?}");
            assert_eq!(client.server_info().name, "script");
            client.call_tool_json("greet", Value::Null).await.unwrap()
        };
        let (output, ()) = tokio::join!(calling, serving);
        assert_eq!(text(&output), "hello", "{refusal:?}");
    }
}

/// After `initialize`, a server of several versions expects the rest of the handshake.
#[tokio::test(start_paused = true)]
async fn accepted_handshake_precedes_a_late_response_to_discover() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        let discover = server.expect("server/discover").await;
        let initialize = server.expect("initialize").await;
        server.describe(&discover, json!({})).await;
        server.welcome(&initialize, "2025-11-25", json!({})).await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    assert_eq!(client.unwrap().version(), McpVersion::V2025_11_25);
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_both_requests_late_is_an_error() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        let discover = server.expect("server/discover").await;
        let initialize = server.expect("initialize").await;
        server.refuse(&initialize, -32022, "another version").await;
        server.refuse(&discover, -32601, "what is that?").await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    let error = client.unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn client_without_older_versions_waits_until_the_connect_timeout() {
    let (mut server, reader, writer) = Script::new();
    let builder = McpClient::builder().versions([McpVersion::V2026_07_28]);
    let serving = async {
        let discover = server.expect("server/discover").await;
        tokio::time::sleep(Duration::from_secs(29)).await;
        server.describe(&discover, json!({})).await;
    };
    let (client, ()) = tokio::join!(builder.connect_io(reader, writer), serving);
    assert_eq!(client.unwrap().version(), McpVersion::V2026_07_28);
}

#[tokio::test(start_paused = true)]
async fn silent_server_fails_after_the_connect_timeout() {
    let (_server, reader, writer) = Script::new();
    let started = tokio::time::Instant::now();
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(9));
    let error = builder.connect_io(reader, writer).await.unwrap_err();
    assert!(matches!(&error, McpError::Connection(text) if text.contains("9s")), "{error}");
    assert_eq!(started.elapsed().as_secs(), 9);
}

#[tokio::test]
async fn missing_program_is_named_in_the_error() {
    let config = StdioConfig { command: "no-such-program-anywhere".into(), ..Default::default() };
    let error = McpClient::connect_stdio(config).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, McpError::Connection(_)), "{error}");
    assert!(text.contains("no-such-program-anywhere"), "{text}");
}

#[tokio::test]
async fn invalid_url_is_an_error() {
    for url in ["", "localhost", "file:///etc/passwd"] {
        let config = HttpConfig { url: url.into(), ..Default::default() };
        let error = McpClient::connect_http(config).await.unwrap_err();
        assert!(matches!(error, McpError::Connection(_)), "{url}: {error}");
    }
}

/// A sampling handler that fails.
struct Model;

impl SamplingHandler for Model {
    async fn sample(&self, _: SamplingRequest) -> Result<SamplingResponse, McpError> {
        Err(McpError::Other("no".into()))
    }
}

/// An elicitation handler that declines every request. The fields state if it supports forms and web pages.
struct Person {
    forms: bool,
    urls: bool,
}

impl ElicitationHandler for Person {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        Ok(ElicitationResponse::Decline)
    }

    fn supports_forms(&self) -> bool {
        self.forms
    }

    fn supports_urls(&self) -> bool {
        self.urls
    }
}

#[tokio::test]
async fn capabilities_match_the_configured_handlers() {
    let person = |forms, urls| McpClient::builder().elicitation(Person { forms, urls });
    let offers = [
        (McpClient::builder(), json!({})),
        (McpClient::builder().sampling(Model), json!({ "sampling": { "tools": {} } })),
        (person(true, false), json!({ "elicitation": { "form": {} } })),
        (person(false, true), json!({ "elicitation": { "url": {} } })),
        (person(false, false), json!({})),
        (
            McpClient::builder().roots(vec![McpRoot::new("file:///work")]),
            json!({ "roots": { "listChanged": true } }),
        ),
    ];
    for (builder, expected) in offers {
        let (mut server, reader, writer) = Script::new();
        let greeting = server.shake_hands("2025-11-25", json!({}));
        let (client, hello) = tokio::join!(builder.connect_io(reader, writer), greeting);
        assert_eq!(hello["params"]["capabilities"], expected);
        drop(client);
    }
}

#[tokio::test]
async fn closed_client_cannot_be_used_again() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let mut events = client.events();
    client.close().await;
    assert!(client.is_closed());
    assert!(server.next().await.is_none(), "the streams are closed");
    assert_eq!(events.next().await, None);
    assert_eq!(client.events().next().await, None);
    let error = client.list_tools(None).await.unwrap_err();
    assert!(matches!(&error, McpError::Transport(text) if text.contains("closed")), "{error}");
    client.close().await;
}

#[tokio::test]
async fn dropped_client_closes_the_streams() {
    let (client, mut server) = connected(McpClient::builder()).await;
    drop(client);
    assert!(server.next().await.is_none());
}

#[cfg(unix)]
#[tokio::test]
async fn stderr_of_a_failed_program_is_in_the_error() {
    let script = "echo 'no licence' >&2; exit 3";
    let config = StdioConfig {
        command: "sh".into(),
        args: vec!["-c".into(), script.into()],
        ..Default::default()
    };
    let text = McpClient::connect_stdio(config).await.unwrap_err().to_string();
    assert!(text.contains("sh:") && text.contains("no licence"), "{text}");
}

/// Connects to a shell script as the server. The script reads four messages. It responds to the first two, which are
/// `server/discover` and `initialize`.
#[cfg(unix)]
#[tokio::test]
async fn stdio_handshake_with_a_shell_script() {
    let refused = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"?"}}"#;
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": { "name": "sh", "version": "1" },
    } });
    let script = format!("read a; echo '{refused}'; read b; echo '{hello}'; read c; read d");
    let config =
        StdioConfig { command: "sh".into(), args: vec!["-c".into(), script], ..Default::default() };
    let client = McpClient::connect_stdio(config).await.unwrap();
    assert_eq!(client.server_info().name, "sh");
    // The script ends after it has read `tools/list`.
    let error = client.list_tools(None).await.unwrap_err();
    assert!(matches!(&error, McpError::Transport(_)), "{error}");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn ignored_log_level_does_not_fail_connecting() {
    let (mut server, reader, writer) = Script::new();
    let builder = McpClient::builder().log_level(neuron_mcp::LogLevel::Debug);
    let serving = async {
        server.shake_hands("2025-11-25", json!({ "logging": {} })).await;
        server.expect("logging/setLevel").await;
    };
    let (client, ()) = tokio::join!(builder.connect_io(reader, writer), serving);
    assert!(!client.unwrap().is_closed());
}
