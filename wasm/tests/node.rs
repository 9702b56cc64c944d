//! Runs the module under Node.js, whose `fetch` calls loopback servers of the vendors' wires.
//!
//! `cargo xtask test wasm` builds the module and runs these tests. `NEURON_WASM` is the path of the module.

#![cfg(not(target_family = "wasm"))]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use neuron_testing::{
    AnthropicServer, BedrockServer, GeminiServer, OllamaServer, OpenAiServer, Reply,
};
use neuron_types::ProviderError;
use serde_json::json;
use tokio::process::Command;
use wasm_bindgen_cli_support::Bindgen;

/// Returns the path of the JavaScript for the module. The first call writes it.
fn javascript() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let module =
            std::env::var("NEURON_WASM").expect("`cargo xtask test wasm` sets NEURON_WASM");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neuron-wasm");
        let mut bindgen = Bindgen::new();
        bindgen.input_path(module).nodejs(true).unwrap().typescript(false);
        bindgen.generate(&folder).unwrap();
        folder.join("neuron_wasm.js")
    })
}

/// Runs a script of the folder `tests` with the module and arguments, and returns its standard output.
async fn node(script: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script));
    command.arg(javascript()).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
    let output = output.expect("the script ends within a minute").unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{arguments:?}: {}:\n{stdout}\n{stderr}", output.status);
    stdout.trim_end().to_owned()
}

/// Runs a test of `src/cases.rs`, and returns its text.
async fn run(case: &str, url: &str) -> String {
    node("node.mjs", &[case, url]).await
}

/// Runs a test against a server with the replies, and returns its text. All replies must be used.
async fn anthropic(
    case: &str,
    replies: impl IntoIterator<Item = Reply>,
) -> (String, AnthropicServer) {
    let server = AnthropicServer::start(replies).await.unwrap();
    let text = run(case, &server.url()).await;
    server.assert_complete();
    (text, server)
}

fn weather() -> [Reply; 2] {
    [
        Reply::tool_call("call_1", "get_weather", json!({"city": "Tokyo"})),
        Reply::text("It is sunny."),
    ]
}

/// Returns a long text in small pieces, with pauses.
fn pieces() -> [Reply; 1] {
    [Reply::text("one two three four").chunk_chars(4).event_delay(Duration::from_millis(100))]
}

#[tokio::test]
async fn agents_of_each_provider_call_a_tool_and_stream() {
    let (text, server) = anthropic("anthropic", weather()).await;
    assert_eq!(text, "It is sunny.");
    // Anthropic rejects requests of web pages without this header.
    let requests = server.requests();
    assert_eq!(requests[0].header("anthropic-dangerous-direct-browser-access"), Some("true"));
    assert_eq!(anthropic("stream_anthropic", pieces()).await.0, "one two three four in pieces");

    let replies = weather().into_iter().chain(weather()).chain(pieces());
    let server = OpenAiServer::start(replies).await.unwrap();
    for case in ["openai", "openai_responses"] {
        assert_eq!(run(case, &server.url()).await, "It is sunny.", "{case}");
    }
    assert_eq!(run("stream_openai", &server.url()).await, "one two three four in pieces");
    server.assert_complete();

    let server = OllamaServer::start(weather().into_iter().chain(pieces())).await.unwrap();
    assert_eq!(run("ollama", &server.url()).await, "It is sunny.");
    assert_eq!(run("stream_ollama", &server.url()).await, "one two three four in pieces");
    server.assert_complete();

    let server = BedrockServer::start(weather().into_iter().chain(pieces())).await.unwrap();
    assert_eq!(run("bedrock", &server.url()).await, "It is sunny.");
    assert_eq!(run("stream_bedrock", &server.url()).await, "one two three four in pieces");
    server.assert_complete();

    let server = GeminiServer::start(weather().into_iter().chain(pieces())).await.unwrap();
    assert_eq!(run("gemini", &server.url()).await, "It is sunny.");
    assert_eq!(run("stream_gemini", &server.url()).await, "one two three four in pieces");
    server.assert_complete();
}

#[tokio::test]
async fn cancelled_and_dropped_streams_disconnect_and_the_conversation_continues() {
    for case in ["cancel", "drop"] {
        let hanging = Reply::text("one two three").chunk_chars(4).hang_after(4);
        let (text, server) = anthropic(case, [hanging, Reply::text("Here I am.")]).await;
        assert_eq!(text, "Here I am.", "{case}");
        server.wait_for_disconnect().await;
    }
}

#[tokio::test]
async fn timeouts_and_network_errors_end_a_run() {
    let (text, _server) = anthropic("timeout", [Reply::hang(), Reply::hang(), Reply::hang()]).await;
    assert_eq!(text, "provider error: timeout after 200ms");
    let slow = || Reply::text("one two three").chunk_chars(4).hang_after(4);
    let (text, _server) = anthropic("idle_timeout", [slow(), slow(), slow()]).await;
    assert_eq!(text, "provider error: timeout after 200ms");
    let text = run("network", "").await;
    assert!(text.starts_with("provider error: network"), "{text}");
}

#[tokio::test]
async fn retry_waits_for_the_delay_of_the_server() {
    let retry_after = Some(Duration::from_secs(1));
    let limited = Reply::error(ProviderError::RateLimit { retry_after });
    let (text, _server) = anthropic("rate_limit", [limited, Reply::text("Now.")]).await;
    assert_eq!(text, "Now., paused: true");
}

#[tokio::test]
async fn router_calls_another_route_beside_one_that_hangs() {
    let (text, server) = anthropic("router", [Reply::hang(), Reply::text("Here I am.")]).await;
    assert_eq!(text, "Here I am.");
    // The call of the slow route was cancelled.
    server.wait_for_disconnect().await;
}

#[tokio::test]
async fn tools_time_out_and_run_concurrently() {
    let hangs = Reply::tool_call("call_1", "hang", json!({}));
    let (text, _server) = anthropic("tool_timeout", [hangs, Reply::text("Too slow.")]).await;
    assert_eq!(text, "Too slow., error: true");
    let calls = Reply::tool_calls([("call_1", "work", json!({})), ("call_2", "work", json!({}))]);
    let (text, _server) = anthropic("parallel_tools", [calls, Reply::text("Done.")]).await;
    assert_eq!(text, "start start end end");
    let weather = |id: &str| (id.to_owned(), "get_weather", json!({"city": "Tokyo"}));
    let hang = ("call_3".to_owned(), "hang", json!({}));
    let calls = Reply::tool_calls([weather("call_1"), weather("call_2"), hang]);
    let (text, _server) = anthropic("middleware", [calls, Reply::text("Done.")]).await;
    assert_eq!(text, "errors: 1, paused: true");
}

#[tokio::test]
async fn approvals_contexts_sub_agents_and_guardrails_work() {
    assert_eq!(anthropic("approval", weather()).await.0, "It is sunny.");

    let (messages, server) = anthropic("context", (0..10).map(|_| Reply::text("answer"))).await;
    let bodies = server.bodies();
    let lengths = bodies.iter().map(|body| body["messages"].as_array().unwrap().len());
    assert_eq!((lengths.max(), messages.as_str()), (Some(5), "6"));

    let delegation = [
        Reply::tool_call("call_1", "translator", json!({"prompt": "Good morning"})),
        Reply::text("Bonjour"),
        Reply::text("It is Bonjour."),
    ];
    assert_eq!(anthropic("sub_agent", delegation).await.0, "It is Bonjour.");

    let (text, server) = anthropic("guardrail", []).await;
    assert!(text.contains("a secret"), "{text}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn timers_are_those_of_javascript() {
    assert_eq!(run("clock", "").await, "short long");
}

#[tokio::test]
async fn agent_of_the_page_streams_and_stops() {
    let server = AnthropicServer::start([
        Reply::tool_call("call_1", "add", json!({"a": 2.0, "b": 3.0})),
        Reply::text("It is 5.").chunk_chars(3),
        Reply::text("one two three").chunk_chars(4).hang_after(4),
        Reply::text("Here I am."),
    ])
    .await
    .unwrap();
    let text = node("chat.mjs", &[&server.url()]).await;
    assert_eq!(text, "It is 5. true true\ncancelled\nHere I am.");
    server.assert_complete();
    server.wait_for_disconnect().await;
}
