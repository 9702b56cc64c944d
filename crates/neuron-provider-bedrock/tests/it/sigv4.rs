//! Tests of signed requests. The server verifies the signatures.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt as _;
use neuron_conformance::child_process::run_with_environment;
use neuron_model::{CompletionRequest, Message, Provider, ProviderError};
use neuron_provider_bedrock::Bedrock;
use neuron_provider_bedrock::aws_credential_types::Credentials;
use neuron_provider_bedrock::aws_credential_types::provider::{ProvideCredentials, future};
use neuron_testing::{BedrockServer, Reply, ServerReply};

/// Ids of models with characters that are encoded in the URL, and once more in the signature.
const MODELS: [&str; 3] = [
    "amazon.nova-lite-v1:0",
    "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0",
    "my model/ü~*'+",
];

fn credentials(secret: &str, token: Option<&str>) -> Credentials {
    let token = token.map(str::to_owned);
    Credentials::new(BedrockServer::ACCESS_KEY_ID, secret, token, None, "test")
}

fn signed(server: &BedrockServer, token: Option<&str>) -> Bedrock {
    let credentials = credentials(BedrockServer::SECRET_ACCESS_KEY, token);
    Bedrock::with_credentials("eu-west-1", credentials).base_url(server.url())
}

fn ask() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("grüezi")], ..Default::default() }
}

#[tokio::test]
async fn signatures_are_valid_for_all_ids_and_both_kinds_of_responses() {
    for token in [None, Some("session+token/==")] {
        for model in MODELS {
            let server = BedrockServer::start([Reply::text("a"), Reply::text("b")]).await.unwrap();
            let provider = signed(&server, token).model(model);
            let whole = provider.complete(ask()).await.unwrap();
            let stream = provider.complete_stream(ask()).await.unwrap();
            let streamed = stream.into_response().await.unwrap();
            assert_eq!((whole.message.text(), streamed.message.text()), ("a".into(), "b".into()));
            for request in server.requests() {
                assert_eq!(request.header("x-amz-security-token"), token);
                let authorization = request.header("authorization").unwrap();
                assert!(authorization.contains("/eu-west-1/bedrock/"), "{authorization}");
                assert!(authorization.contains("SignedHeaders=content-type;host;x-amz-date"));
            }
        }
    }
}

/// The base URL may have a path and a query. A signature covers both.
#[tokio::test]
async fn signature_covers_the_query_of_the_base_url() {
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    let provider = signed(&server, None).base_url(format!("{}/?b=2&a=%20x", server.url()));
    assert_eq!(provider.complete(ask()).await.unwrap().message.text(), "a");
    assert_eq!(server.requests()[0].query, "b=2&a=%20x");
}

#[tokio::test]
async fn wrong_secret_is_an_authentication_error() {
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    let provider =
        Bedrock::with_credentials("eu-west-1", credentials("hunter2", None)).base_url(server.url());
    let error = provider.complete(ask()).await.unwrap_err();
    assert_eq!(error.kind(), "Authentication");
    assert!(error.to_string().contains("Check your AWS Secret Access Key"), "{error}");
    assert!(!format!("{error:?} {provider:?}").contains("hunter2"));
    assert_eq!(server.remaining(), 1);
}

/// AWS quotes the signed headers, and the token among them, if it refuses a signature.
#[tokio::test]
async fn token_is_redacted_in_errors() {
    let text = r#"{"message": "The Canonical String should have been 'x-amz-security-token:hunter2+token'"}"#;
    let headers =
        [("content-type", "application/json"), ("x-amzn-errortype", "InvalidSignatureException:")];
    let refusal = || ServerReply::raw(403, headers, text);
    let server = BedrockServer::start([refusal(), refusal()]).await.unwrap();
    let provider = signed(&server, Some("hunter2+token"));
    let whole = provider.complete(ask()).await.unwrap_err();
    let streamed = provider.complete_stream(ask()).await.unwrap_err();
    for error in [whole, streamed] {
        assert_eq!(error.kind(), "Authentication");
        let text = error.to_string();
        assert!(
            text.contains("x-amz-security-token:[redacted]") && !text.contains("hunter2"),
            "{text}"
        );
    }
}

/// A source that never answers.
#[derive(Debug)]
struct Silent;

impl ProvideCredentials for Silent {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_credentials_counts_towards_the_timeout() {
    let timeout = Duration::from_secs(7);
    let provider = Bedrock::with_credentials("eu-west-1", Silent)
        .base_url("http://127.0.0.1:1")
        .timeout(timeout);
    let error = provider.complete(ask()).await.unwrap_err();
    assert!(matches!(error, ProviderError::Timeout(after) if after == timeout), "{error}");
}

#[tokio::test]
async fn call_can_be_dropped_while_it_waits_for_credentials() {
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    let provider = Bedrock::with_credentials("eu-west-1", Silent).base_url(server.url());
    assert!(provider.complete(ask()).now_or_never().is_none());
    assert!(provider.complete_stream(ask()).now_or_never().is_none());
    assert_eq!(server.requests().len(), 0);
}

/// Runs a test in a child process with these variables, and without files and metadata of AWS. Returns `true` there.
fn is_child<'a>(test: &str, url: &'a str, variables: &[(&'a str, &'a str)]) -> bool {
    let mut environment = vec![
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url),
        ("AWS_BEARER_TOKEN_BEDROCK", ""),
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_SESSION_TOKEN", ""),
        ("AWS_PROFILE", "default"),
        ("AWS_CONFIG_FILE", "/no/such/file"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    // The last value of a variable counts.
    environment.extend(variables);
    tokio::task::block_in_place(|| run_with_environment(test, environment))
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_have_the_credentials() {
    let test = concat!(module_path!(), "::variables_have_the_credentials");
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    let variables = [
        ("AWS_ACCESS_KEY_ID", BedrockServer::ACCESS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", BedrockServer::SECRET_ACCESS_KEY),
        ("AWS_SESSION_TOKEN", "token"),
    ];
    if is_child(test, &server.url(), &variables) {
        let response = Bedrock::from_env().unwrap().complete(ask()).await.unwrap();
        assert_eq!(response.message.text(), "a");
        return;
    }
    assert_eq!(server.requests()[0].header("x-amz-security-token"), Some("token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn api_key_is_preferred_to_credentials() {
    let test = concat!(module_path!(), "::api_key_is_preferred_to_credentials");
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    let variables = [
        ("AWS_BEARER_TOKEN_BEDROCK", BedrockServer::API_KEY),
        ("AWS_ACCESS_KEY_ID", BedrockServer::ACCESS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", BedrockServer::SECRET_ACCESS_KEY),
    ];
    if is_child(test, &server.url(), &variables) {
        let response = Bedrock::from_env().unwrap().complete(ask()).await.unwrap();
        assert_eq!(response.message.text(), "a");
        return;
    }
    assert_eq!(server.requests()[0].bearer(), Some(BedrockServer::API_KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credentials_are_an_error_before_the_request() {
    let test = concat!(module_path!(), "::no_credentials_are_an_error_before_the_request");
    let server = BedrockServer::start([Reply::text("a")]).await.unwrap();
    if is_child(test, &server.url(), &[]) {
        let error = Bedrock::from_env().unwrap().complete(ask()).await.unwrap_err();
        assert_eq!(error.kind(), "Authentication");
        assert!(error.to_string().contains("there are no AWS credentials"), "{error}");
        return;
    }
    assert_eq!(server.requests().len(), 0);
}
