//! Tests of the predefined dialects. Each dialect is tested with a server that deviates from OpenAI like the dialect's
//! real server.

use std::time::Duration;

use neuron_conformance::provider::{Capabilities, ProviderHarness};
use neuron_conformance::provider_tests;
use neuron_http::KeySource;
use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, EmbeddingError, EmbeddingProvider,
    EmbeddingRequest, Message, Provider, ProviderError, Role,
};
use neuron_provider_openai::{Dialect, OpenAi, ReasoningBack, TokenLimit};
use neuron_testing::openai::{Dialect as Quirks, OpenAiApi};
use neuron_testing::{OpenAiServer, ServerReply};
use serde_json::{Value, json};

use crate::conformance::chat_capabilities;
use crate::support::*;

/// The test setup for one dialect. It describes the test server, which deviates from OpenAI like the dialect's real
/// server.
struct Server {
    dialect: fn() -> Dialect,
    path: &'static str,
    /// Name of the request field for the token limit, either `max_tokens` or `max_completion_tokens`. The test server
    /// rejects the other field.
    token_limit: &'static str,
    has_numeric_codes: bool,
    quirks: fn(Quirks) -> Quirks,
}

impl ProviderHarness for Server {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        let other: &[&str] = match self.token_limit {
            "max_tokens" => &["max_completion_tokens"],
            _ => &["max_tokens"],
        };
        let quirks = Quirks::default().lenient().served_at(self.path).refusing(other);
        let quirks = if self.has_numeric_codes { quirks.numeric_codes() } else { quirks };
        OpenAiApi::new((self.quirks)(quirks))
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        let dialect = (self.dialect)();
        // The URL of the test server differs from the dialect's URL only in the host.
        let query = dialect
            .base_url
            .split_once('?')
            .map_or(String::new(), |(_, query)| format!("?{query}"));
        OpenAi::compatible(dialect.at(format!("{url}{}{query}", self.path)), api_key).model("m")
    }

    fn capabilities(&self) -> Capabilities {
        let returns = (self.dialect)().reasoning == ReasoningBack::Always;
        let chat = Capabilities { thinking_returns: returns, ..chat_capabilities() };
        match self.has_numeric_codes {
            // These servers send the failure in a stream with the code 500, which makes the error retryable.
            true => chat.without_stream_errors(&["StreamError"]),
            false => chat,
        }
    }
}

/// Runs the conformance suite, which every provider of neuron must pass. `own_stream` runs all tests. `plain_stream`
/// omits the slow tests of streamed bytes. Use it if the server's streams have the same bytes as OpenAI's.
macro_rules! suite {
    (own_stream, $server:expr) => {
        provider_tests!($server);
    };
    (plain_stream, $server:expr) => {
        provider_tests!($server, text tools thinking requests prefixes usage stop_reasons errors
            stream_errors keys dropping concurrency connections connection_errors redirects
            body_limits timeouts);
    };
}

/// Defines the tests of dialects, with a module for each dialect.
///
/// An entry consists of:
///
/// - the name of the module,
/// - a keyword for the stream tests, which [`suite`] explains,
/// - `named_codes` or `numeric_codes`, the kind of error codes that the server sends,
/// - the dialect,
/// - the path of the API on the test server,
/// - the name of the request field for the token limit,
/// - the other deviations of the test server from OpenAI.
macro_rules! dialects {
    ($($name:ident: $stream:ident $codes:ident, $dialect:expr, $path:literal, $limit:literal, $quirks:expr;)+) => {$(
        mod $name {
            use super::*;

            const SERVER: Server = Server {
                dialect: || $dialect,
                path: $path,
                token_limit: $limit,
                has_numeric_codes: matches!(stringify!($codes).as_bytes(), b"numeric_codes"),
                quirks: $quirks,
            };

            suite!($stream, SERVER);

            #[test]
            fn base_url_matches_documentation() {
                let dialect = (SERVER.dialect)();
                let address = dialect.base_url.split('?').next().unwrap();
                let (_, rest) = address.split_once("://").unwrap();
                let path = rest.find('/').map_or("", |start| &rest[start..]);
                assert_eq!(path, SERVER.path);
                assert!(dialect.documentation.starts_with("https://"), "{}", dialect.documentation);
                let is_local = rest.starts_with("localhost:");
                assert_eq!(address.starts_with("https://"), !is_local);
            }
        }
    )+};
}

dialects! {
    openai: own_stream named_codes, Dialect::openai(), "/v1", "max_completion_tokens", |quirks| quirks;
    openrouter: own_stream named_codes, Dialect::openrouter(), "/api/v1", "max_tokens", |quirks| quirks.usage_on_last_choice().reasoning_field();
    gemini: own_stream named_codes, Dialect::gemini(), "/v1beta/openai", "max_tokens", |quirks| quirks.without_call_index().signed_calls().reasoning_beside();
    vertex: plain_stream named_codes, Dialect::vertex("p", "europe-west1"), "/v1/projects/p/locations/europe-west1/endpoints/openapi", "max_tokens",
        |quirks| quirks.without_call_index().signed_calls().reasoning_beside();
    mistral: own_stream named_codes, Dialect::mistral(), "/v1", "max_tokens",
        |quirks| quirks.usage_without_option().usage_on_last_choice().without_call_index().short_call_ids();
    groq: own_stream named_codes, Dialect::groq(), "/openai/v1", "max_completion_tokens", Quirks::whole_arguments;
    deepseek: own_stream named_codes, Dialect::deepseek(), "", "max_tokens",
        |quirks| quirks.usage_on_last_choice().reasoning_with_calls();
    xai: own_stream named_codes, Dialect::xai(), "/v1", "max_completion_tokens", Quirks::reasoning_beside;
    together: plain_stream named_codes, Dialect::together(), "/v1", "max_tokens", |quirks| quirks;
    fireworks: plain_stream named_codes, Dialect::fireworks(), "/inference/v1", "max_tokens", |quirks| quirks;
    cerebras: plain_stream named_codes, Dialect::cerebras(), "/v1", "max_completion_tokens", Quirks::reasoning_field;
    cohere: plain_stream named_codes, Dialect::cohere(), "/compatibility/v1", "max_tokens", |quirks| quirks;
    zai: plain_stream named_codes, Dialect::zai(), "/api/paas/v4", "max_tokens", Quirks::usage_on_last_choice;
    moonshot: plain_stream named_codes, Dialect::moonshot(), "/v1", "max_tokens",
        |quirks| quirks.usage_on_last_choice().reasoning_with_calls();
    minimax: plain_stream named_codes, Dialect::minimax(), "/v1", "max_completion_tokens", |quirks| quirks;
    dashscope: own_stream named_codes, Dialect::dashscope(), "/compatible-mode/v1", "max_tokens", Quirks::later_ids_empty;
    ark: plain_stream named_codes, Dialect::ark(), "/api/v3", "max_tokens", |quirks| quirks;
    cloudflare: plain_stream named_codes, Dialect::cloudflare("a1"), "/client/v4/accounts/a1/ai/v1", "max_tokens", |quirks| quirks;
    databricks: plain_stream named_codes, Dialect::databricks("w.cloud.databricks.com"), "/serving-endpoints", "max_tokens", |quirks| quirks;
    snowflake: own_stream named_codes, Dialect::snowflake("acme"), "/api/v2/cortex/v1", "max_completion_tokens", Quirks::call_stubs;
    hugging_face: plain_stream named_codes, Dialect::hugging_face(), "/v1", "max_tokens", |quirks| quirks;
    bedrock: plain_stream named_codes, Dialect::bedrock("us-east-1"), "/openai/v1", "max_completion_tokens", |quirks| quirks;
    azure: plain_stream named_codes, Dialect::azure("res"), "/openai/v1", "max_completion_tokens", |quirks| quirks.key_in("api-key");
    azure_deployment: plain_stream named_codes, Dialect::azure_deployment("res", "gpt", "2024-10-21"), "/openai/deployments/gpt", "max_completion_tokens",
        |quirks| quirks.key_in("api-key");
    vllm: plain_stream numeric_codes, Dialect::vllm(), "/v1", "max_completion_tokens", |quirks| quirks;
    sglang: plain_stream numeric_codes, Dialect::sglang(), "/v1", "max_completion_tokens", |quirks| quirks;
    lm_studio: plain_stream named_codes, Dialect::lm_studio(), "/v1", "max_tokens", |quirks| quirks;
    mistral_rs: plain_stream named_codes, Dialect::mistral_rs(), "/v1", "max_tokens", |quirks| quirks;
    llama_cpp: plain_stream numeric_codes, Dialect::llama_cpp(), "/v1", "max_tokens", |quirks| quirks;
    ollama: own_stream named_codes, Dialect::ollama(), "/v1", "max_tokens", Quirks::stop_with_calls;
    local_ai: plain_stream numeric_codes, Dialect::local_ai(), "/v1", "max_tokens", |quirks| quirks;
}

// Perplexity does not accept tools. Its streams end when the connection closes, so the connection is not reused.
mod perplexity {
    use super::*;

    provider_tests!(
        Server {
            dialect: Dialect::perplexity,
            path: "",
            token_limit: "max_tokens",
            has_numeric_codes: false,
            quirks: |quirks| quirks.usage_without_option().without_done(),
        },
        text usage errors stream_errors keys dropping concurrency streaming connection_errors
            redirects body_limits timeouts splits
    );
}

#[tokio::test]
async fn query_of_base_url_is_sent_with_each_request() {
    let quirks = Quirks::default().served_at("/openai/deployments/gpt").key_in("api-key");
    let server = OpenAiServer::builder().dialect(quirks).start(["a"]).await.unwrap();
    let dialect = Dialect::azure_deployment("res", "gpt", "2024-10-21")
        .at(format!("{}/openai/deployments/gpt?api-version=2024-10-21", server.url()));
    let provider = OpenAi::compatible(dialect, OpenAiServer::API_KEY);
    provider.complete(ask("hi")).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.query, "api-version=2024-10-21");
    assert_eq!((request.header("api-key"), request.bearer()), (Some(OpenAiServer::API_KEY), None));
}

/// The URL of a deployment named `chat` or `embeddings` must keep its last segment. Regression test.
#[tokio::test]
async fn deployment_named_like_the_endpoint_keeps_its_path() {
    for (name, path) in
        [("chat", "/openai/deployments/chat"), ("embeddings", "/openai/deployments/embeddings")]
    {
        let quirks = Quirks::default().served_at(path).key_in("api-key");
        let server = OpenAiServer::builder().dialect(quirks).start(["a"]).await.unwrap();
        let dialect = Dialect::azure_deployment("res", name, "2024-10-21");
        let address = dialect.base_url.replace("https://res.openai.azure.com", &server.url());
        let provider = OpenAi::compatible(dialect.at(address), OpenAiServer::API_KEY);
        provider.complete(ask("hi")).await.unwrap();
        let texts = EmbeddingRequest { input: vec!["hi".into()], ..Default::default() };
        // The server has no vectors to send. The test checks only the URL of the request.
        provider.embed(texts).await.unwrap_err();
        let paths: Vec<_> = server.requests().iter().map(|sent| sent.path.clone()).collect();
        assert_eq!(paths, [format!("{path}/chat/completions"), format!("{path}/embeddings")]);
    }
}

/// The client must not add `/v1` to a base URL that the caller sets. Regression test.
#[tokio::test]
async fn base_url_of_compatible_client_is_not_extended() {
    let server = OpenAiServer::builder().dialect(Quirks::default().served_at("/llm").lenient());
    let server = server.start(["a"]).await.unwrap();
    let provider = OpenAi::compatible(Dialect::groq(), OpenAiServer::API_KEY);
    provider.base_url(format!("{}/llm", server.url())).complete(ask("hi")).await.unwrap();
    assert_eq!(server.requests()[0].path, "/llm/chat/completions");
}

/// The signature of a Gemini call must be sent back to Gemini, which requires it. It must not be sent to Groq, which
/// rejects it.
#[tokio::test]
async fn vendor_fields_are_not_sent_to_another_vendor() {
    let call = json!({
        "id": "a", "type": "function", "function": { "name": "look", "arguments": "{}" },
        "extra_content": { "google": { "thought_signature": "s" } },
    });
    let message = json!({ "role": "assistant", "tool_calls": [call], "reasoning_details": [{ "text": "t" }] });
    let choice = json!({ "index": 0, "finish_reason": "tool_calls", "message": message });
    let whole = json!({ "id": "1", "model": "m", "choices": [choice] }).to_string();
    let delta = json!({ "index": 0, "finish_reason": "tool_calls", "delta": message });
    let chunk =
        json!({ "id": "1", "model": "m", "choices": [delta], "usage": { "total_tokens": 1 } });
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let server = OpenAiServer::builder().dialect(Quirks::default().lenient());
    let server = server
        .start([
            ServerReply::raw(200, [("content-type", "application/json")], whole),
            ServerReply::raw(200, [("content-type", "text/event-stream")], stream),
            "ok".into(),
            "ok".into(),
            "ok".into(),
        ])
        .await
        .unwrap();
    let client = |dialect: Dialect| {
        OpenAi::compatible(dialect.at(format!("{}/v1", server.url())), OpenAiServer::API_KEY)
    };
    let gemini = client(Dialect::gemini());
    let answer = gemini.complete(ask("hi")).await.unwrap().message;
    let streamed = gemini.complete_stream(ask("hi")).await.unwrap().into_response().await.unwrap();
    assert_eq!(streamed.message.content[..2], answer.content[..2]);
    let mut request = ask("hi");
    let content = vec![ContentItem::Text("found".into())];
    let result = ContentBlock::ToolResult { tool_use_id: "a".into(), content, is_error: false };
    request.messages.extend([answer, Message { role: Role::User, content: vec![result] }]);
    for (provider, expected) in [
        (gemini, &message),
        (client(Dialect::groq()), &plain(&call)),
        (OpenAi::new(OpenAiServer::API_KEY).base_url(server.url()), &plain(&call)),
    ] {
        provider.complete(request.clone()).await.unwrap();
        let sent = server.requests().pop().unwrap().json.unwrap();
        assert_eq!(&sent["messages"][1], expected, "{}", provider.info().name);
    }
}

#[test]
fn endpoints_of_one_vendor_share_a_name() {
    assert_eq!(Dialect::gemini().name, Dialect::vertex("p", "global").name);
    assert_eq!(Dialect::azure("r").name, Dialect::azure_deployment("r", "d", "v").name);
}

#[tokio::test]
async fn dialect_phrases_are_matched_and_header_secrets_are_hidden() {
    let reject = |text: &str| {
        let body = json!({ "error": { "message": format!("{text} for hunter2-key") } });
        ServerReply::raw(400, [("content-type", "application/json")], body.to_string())
    };
    let replies = [reject("Zu viel Text"), reject("Kein Modell"), reject("Kaputt")];
    let server = OpenAiServer::start(replies).await.unwrap();
    let mut dialect = Dialect::new("").at(format!("{}/v1", server.url()));
    dialect.overflow_words = &["zu viel text"];
    dialect.unknown_model_words = &["kein modell"];
    let provider =
        OpenAi::compatible(dialect, OpenAiServer::API_KEY).header("x-key", "hunter2-key");
    for kind in ["ContextWindowExceeded", "ModelNotFound", "InvalidRequest"] {
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// Returns a message that contains only this call, with the fields that all servers know.
fn plain(call: &Value) -> Value {
    let mut call = call.clone();
    call.as_object_mut().unwrap().remove("extra_content");
    json!({ "role": "assistant", "tool_calls": [call] })
}

#[tokio::test]
async fn custom_dialect_and_headers_are_sent() {
    let server = OpenAiServer::builder()
        .dialect(Quirks::default().served_at("/llm").lenient())
        .start(["a"])
        .await
        .unwrap();
    let mut dialect = Dialect::new("").at(format!("{}/llm/", server.url()));
    dialect.token_limit = TokenLimit::MaxTokens;
    dialect.headers = &[("x-team", "a"), ("x-tier", "low")];
    let provider = OpenAi::compatible(dialect, OpenAiServer::API_KEY).header("X-Tier", "high");
    provider.complete(ask("hi")).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!((request.header("x-team"), request.header("x-tier")), (Some("a"), Some("high")));
    let body = request.json.as_ref().unwrap();
    assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&json!(64), None));
    let error = provider.header("a b", "c").complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid request: `a b` is not a valid header name");
}

#[tokio::test]
async fn key_source_is_called_before_each_request() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);

    let server = OpenAiServer::builder().api_key("token-1").start(["a"]).await.unwrap();
    let source = KeySource::new(|| async {
        match COUNT.fetch_add(1, Ordering::Relaxed) {
            2 => Err(ProviderError::Authentication("the vault is sealed".into())),
            count => Ok(format!("token-{count}")),
        }
    });
    let provider = OpenAi::new("unused").base_url(server.url()).key_source(source);
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Authentication(_)), "{error}");
    assert!(!error.to_string().contains("token-0"), "the key is not shown: {error}");
    provider.complete(ask("hi")).await.unwrap();
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: the vault is sealed");
    let keys: Vec<_> =
        server.requests().iter().map(|sent| sent.bearer().unwrap().to_owned()).collect();
    assert_eq!(keys, ["token-0", "token-1"]);
}

/// A call must end with a timeout error if the key source never returns a key. Regression test. The call never ended.
#[tokio::test]
async fn timeout_includes_the_wait_for_the_key() {
    let limit = Duration::from_millis(50);
    let hangs = KeySource::new(std::future::pending);
    let provider = OpenAi::new("unused").timeout(limit).key_source(hangs);
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Timeout(after) if after == limit), "{error}");
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Timeout(_)), "{error}");
    let texts = EmbeddingRequest { input: vec!["hi".into()], ..Default::default() };
    let error = provider.embed(texts).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::Timeout(_)), "{error}");
}

/// A stream that lacks both the requested token counts and `[DONE]` must be an error. Regression test. A stream that a
/// proxy closed early was reported as complete, with zero tokens.
#[tokio::test]
async fn stream_without_done_requires_requested_usage() {
    const ANSWER: &str = r#"data: {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}

"#;
    const USAGE: &str = r#"data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}

"#;
    const DONE: &str = "data: [DONE]\n\n";
    let mut silent = Dialect::openai();
    silent.left_out = &["stream_options"];
    let own = json!({"stream_options": {"include_usage": false}});
    let partly_own = json!({"stream_options": {"include_obfuscation": false}});
    for (dialect, extra, rest, is_success) in [
        (Dialect::openai(), None, "", false),
        (Dialect::openai(), None, USAGE, true),
        (Dialect::openai(), None, DONE, true),
        (Dialect::openai(), Some(own), "", true),
        (Dialect::openai(), Some(partly_own), "", false),
        (silent, None, "", true),
    ] {
        let headers = [("content-type", "text/event-stream")];
        let reply = ServerReply::raw(200, headers, format!("{ANSWER}{rest}"));
        let server = OpenAiServer::start([reply]).await.unwrap();
        let address = format!("{}/v1", server.url());
        let provider = OpenAi::compatible(dialect.at(address), OpenAiServer::API_KEY);
        let request = CompletionRequest { extra, ..ask("hi") };
        let stream = provider.complete_stream(request).await.unwrap();
        match stream.into_response().await {
            Ok(response) => assert!(is_success, "{rest}: {response:?}"),
            Err(ProviderError::StreamError(text)) => {
                assert!(!is_success, "{rest}: {text}");
                assert_eq!(text, "the stream ended before the usage, and without [DONE]");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
