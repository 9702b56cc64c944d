//! Each ready-made dialect against a server that differs from OpenAI in the same way.

use std::time::Duration;

use neuron_conformance::provider::{Capabilities, ProviderHarness};
use neuron_conformance::provider_tests;
use neuron_http::KeySource;
use neuron_provider_openai::{Dialect, OpenAi, TokenLimit};
use neuron_testing::openai::{Dialect as Quirks, OpenAiApi};
use neuron_testing::{OpenAiServer, ServerReply};
use neuron_types::{
    CompletionRequest, ContentBlock, ContentItem, EmbeddingError, EmbeddingProvider,
    EmbeddingRequest, Message, Provider, ProviderError, Role,
};
use serde_json::{Value, json};

use crate::conformance::chat_capabilities;
use crate::support::*;

/// A dialect, the path at which its server has the API, and the other differences of the server.
struct Server {
    dialect: fn() -> Dialect,
    path: &'static str,
    quirks: fn(Quirks) -> Quirks,
    reasons: bool,
}

impl ProviderHarness for Server {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        OpenAiApi::new((self.quirks)(Quirks::default().lenient()).served_at(self.path))
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        let dialect = (self.dialect)();
        // Only the host is another one.
        let query = dialect
            .base_url
            .split_once('?')
            .map_or(String::new(), |(_, query)| format!("?{query}"));
        OpenAi::compatible(dialect.at(format!("{url}{}{query}", self.path)), api_key).model("m")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { thinking_returns: self.reasons, ..chat_capabilities() }
    }
}

/// Tests one dialect: its name, the path of its server, and the differences of the server.
macro_rules! dialects {
    ($($name:ident, $dialect:expr, $path:literal, $quirks:expr;)+) => {$(
        mod $name {
            use super::*;

            const SERVER: Server =
                Server { dialect: || $dialect, path: $path, quirks: $quirks, reasons: false };

            provider_tests!(SERVER, text tools requests usage stop_reasons errors keys);

            #[test]
            fn address_is_that_of_the_documentation() {
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
    openai, Dialect::openai(), "/v1", |quirks| quirks;
    openrouter, Dialect::openrouter(), "/api/v1", |quirks| quirks.usage_on_last_choice().reasoning_field();
    gemini, Dialect::gemini(), "/v1beta/openai", Quirks::without_call_index;
    vertex, Dialect::vertex("p", "europe-west1"), "/v1/projects/p/locations/europe-west1/endpoints/openapi",
        Quirks::without_call_index;
    mistral, Dialect::mistral(), "/v1",
        |quirks| quirks.usage_without_option().usage_on_last_choice().without_call_index();
    groq, Dialect::groq(), "/openai/v1", Quirks::whole_arguments;
    deepseek, Dialect::deepseek(), "", Quirks::usage_on_last_choice;
    xai, Dialect::xai(), "/v1", |quirks| quirks;
    together, Dialect::together(), "/v1", |quirks| quirks;
    fireworks, Dialect::fireworks(), "/inference/v1", |quirks| quirks;
    cerebras, Dialect::cerebras(), "/v1", Quirks::reasoning_field;
    cohere, Dialect::cohere(), "/compatibility/v1", |quirks| quirks;
    zai, Dialect::zai(), "/api/paas/v4", Quirks::usage_on_last_choice;
    moonshot, Dialect::moonshot(), "/v1", Quirks::usage_on_last_choice;
    minimax, Dialect::minimax(), "/v1", |quirks| quirks;
    dashscope, Dialect::dashscope(), "/compatible-mode/v1", Quirks::later_ids_empty;
    ark, Dialect::ark(), "/api/v3", |quirks| quirks;
    cloudflare, Dialect::cloudflare("a1"), "/client/v4/accounts/a1/ai/v1", |quirks| quirks;
    databricks, Dialect::databricks("w.cloud.databricks.com"), "/serving-endpoints", |quirks| quirks;
    snowflake, Dialect::snowflake("acme"), "/api/v2/cortex/v1", |quirks| quirks;
    hugging_face, Dialect::hugging_face(), "/v1", |quirks| quirks;
    bedrock, Dialect::bedrock("us-east-1"), "/openai/v1", |quirks| quirks;
    azure, Dialect::azure("res"), "/openai/v1", |quirks| quirks.key_in("api-key");
    azure_deployment, Dialect::azure_deployment("res", "gpt", "2024-10-21"), "/openai/deployments/gpt",
        |quirks| quirks.key_in("api-key");
    vllm, Dialect::vllm(), "/v1", Quirks::numeric_codes;
    sglang, Dialect::sglang(), "/v1", Quirks::numeric_codes;
    lm_studio, Dialect::lm_studio(), "/v1", |quirks| quirks;
    llama_cpp, Dialect::llama_cpp(), "/v1", Quirks::numeric_codes;
    ollama, Dialect::ollama(), "/v1", Quirks::stop_with_calls;
    local_ai, Dialect::local_ai(), "/v1", Quirks::numeric_codes;
}

// Perplexity has no tools of the caller.
mod perplexity {
    use super::*;

    provider_tests!(
        Server {
            dialect: Dialect::perplexity,
            path: "",
            quirks: |quirks| quirks.usage_without_option().without_done(),
            reasons: false,
        },
        text usage errors keys
    );
}

#[tokio::test]
async fn the_query_of_an_address_goes_with_each_request() {
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

/// The last segment of these addresses was lost.
#[tokio::test]
async fn deployments_named_like_the_endpoint_keep_their_address() {
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
        // The server has no vectors, so only the address of the request counts.
        provider.embed(texts).await.unwrap_err();
        let paths: Vec<_> = server.requests().iter().map(|sent| sent.path.clone()).collect();
        assert_eq!(paths, [format!("{path}/chat/completions"), format!("{path}/embeddings")]);
    }
}

/// A second `/v1` was added.
#[tokio::test]
async fn base_url_of_a_compatible_client_is_exact() {
    let server = OpenAiServer::builder().dialect(Quirks::default().served_at("/llm").lenient());
    let server = server.start(["a"]).await.unwrap();
    let provider = OpenAi::compatible(Dialect::groq(), OpenAiServer::API_KEY);
    provider.base_url(format!("{}/llm", server.url())).complete(ask("hi")).await.unwrap();
    assert_eq!(server.requests()[0].path, "/llm/chat/completions");
}

/// Groq refuses the signature of a Gemini model, which Gemini requires.
#[tokio::test]
async fn fields_of_one_vendor_do_not_go_to_another() {
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

/// Returns the message with only this call, in the fields that all servers know.
fn plain(call: &Value) -> Value {
    let mut call = call.clone();
    call.as_object_mut().unwrap().remove("extra_content");
    json!({ "role": "assistant", "tool_calls": [call] })
}

#[tokio::test]
async fn own_dialect_and_own_headers_are_sent() {
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
    assert_eq!(error.to_string(), "invalid request: `a b` is no name of a header");
}

#[tokio::test]
async fn key_source_is_asked_before_each_request() {
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

/// A call waited for ever for a token endpoint that does not respond.
#[tokio::test]
async fn time_limit_of_a_call_includes_the_wait_for_the_key() {
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

/// A stream that a proxy closed before its last chunk was a success with a usage of zero.
#[tokio::test]
async fn stream_without_done_needs_the_usage_that_was_asked_for() {
    const ANSWER: &str = r#"data: {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}

"#;
    const USAGE: &str = r#"data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}

"#;
    const DONE: &str = "data: [DONE]\n\n";
    let mut silent = Dialect::openai();
    silent.left_out = &["stream_options"];
    let own = json!({"stream_options": {"include_usage": false}});
    for (dialect, extra, rest, is_success) in [
        (Dialect::openai(), None, "", false),
        (Dialect::openai(), None, USAGE, true),
        (Dialect::openai(), None, DONE, true),
        (Dialect::openai(), Some(own), "", true),
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
