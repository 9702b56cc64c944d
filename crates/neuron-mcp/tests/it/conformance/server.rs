//! Tests of the server with the MCP conformance suite as client. The server offers the tools, resources and prompts
//! that the suite requires.

mod inputs;
mod prompts;
mod resources;
mod tools;

use neuron_mcp::{HttpServerConfig, McpServer};
use neuron_testkit::mcp::Suite;
use neuron_tool::ToolRegistry;

use crate::conformance::report::{End, assert_conforms};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_to_2025_11_25() {
    conforms_to("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_to_2026_07_28() {
    conforms_to("2026-07-28").await;
}

/// Checks that the MCP conformance suite detects a server that does not conform. The server has no tools, resources or
/// prompts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_server_does_not_conform() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let server = McpServer::new(ToolRegistry::new());
    let failure = judge(suite, server, "2025-11-25").await.unwrap_err().into_panic();
    let message = failure.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("the server does not conform to 2025-11-25"), "{message}");
    assert!(message.contains("FAILURE tools-call-image: "), "{message}");
}

async fn conforms_to(revision: &'static str) {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    if let Err(failure) = judge(suite, fixture(), revision).await {
        std::panic::resume_unwind(failure.into_panic());
    }
}

/// Runs the server scenarios of a protocol version (`revision`) against `server`. Returns an error if
/// [`assert_conforms`] panics.
async fn judge(
    suite: Suite,
    server: McpServer,
    revision: &'static str,
) -> Result<(), tokio::task::JoinError> {
    // The suite sends requests with the `Origin` header of a local web page.
    let config = HttpServerConfig::new("127.0.0.1:0".parse().unwrap())
        .allowed_origins(["http://127.0.0.1:*"]);
    let listening = server.bind_http(config).await.unwrap();
    let (url, shutdown) = (listening.url(), listening.shutdown_token());
    let serving = tokio::spawn(listening.serve());
    let run = tokio::task::spawn_blocking(move || {
        assert_conforms(&suite, End::Server, revision, |command| {
            command.args(["--timeout", TIMEOUT, "--url", &url]);
        });
    });
    let result = run.await;
    shutdown.cancel();
    serving.await.unwrap().unwrap();
    result
}

/// Timeout of a scenario, in milliseconds. Long, because the machine may be loaded.
const TIMEOUT: &str = "120000";

/// Creates the server with all tools, resources and prompts that the MCP conformance suite requires.
fn fixture() -> McpServer {
    let mut registry = ToolRegistry::new();
    for tool in tools::all().into_iter().chain(inputs::all()) {
        registry.register_dyn(tool);
    }
    McpServer::new(registry)
        .with_name("conformance-fixture")
        .with_version("1.0.0")
        .with_resources(resources::all())
        .with_prompts(prompts::all())
}
