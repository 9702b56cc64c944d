//! Tests that check the classes and texts of errors over HTTP.

use std::time::Duration;

use neuron_model::{Provider, ProviderError};
use neuron_testing::{OllamaServer, RawServer, Reply, ServerReply};

use crate::support::*;

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

fn error(error: ProviderError) -> ServerReply {
    Reply::error(error).into()
}

/// The same HTTP response must give the same error, whether the request is streamed or not.
#[tokio::test]
async fn error_response_has_class_and_text() {
    use ProviderError as E;
    for (reply, text) in [
        (
            error(E::ServiceUnavailable("server busy".into())),
            "service unavailable: 503: server busy",
        ),
        (error(E::ModelLoading("loading model".into())), "model loading: 503: loading model"),
        (error(E::InsufficientResources("pay".into())), "insufficient resources: 402: pay"),
        (
            error(E::InvalidRequest("\"m\" does not support tools".into())),
            "invalid request: 400: \"m\" does not support tools",
        ),
        (error(E::Timeout(Duration::from_secs(1))), "timeout after 600s"),
        (
            raw(502, &[("content-type", "text/html")], "<html>Bad gateway</html>"),
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>",
        ),
        (raw(500, &[], ""), "service unavailable: 500: the response has no body"),
    ] {
        let server = start([reply.clone(), reply]).await;
        let provider = provider(server.url());
        let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
        let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
        assert_eq!([whole.to_string().as_str(), streamed.to_string().as_str()], [text; 2]);
    }
}

#[tokio::test]
async fn error_with_successful_status_has_text() {
    let no_answer = raw(200, &[("content-type", "application/json")], r#"{"ok":true}"#);
    let busy = ProviderError::ServiceUnavailable("server busy".into());
    let broken = Reply::text("hello").fail_after(1, busy);
    let server = start([no_answer.clone(), no_answer, broken.into()]).await;
    let provider = provider(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
    assert!(error.contains("missing field `message`"), "{error}");
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let error = soon(handle.into_response()).await.unwrap_err();
    assert_eq!(error.kind(), "StreamError");
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let error = soon(handle.into_response()).await.unwrap_err();
    assert_eq!(error.to_string(), "service unavailable: in the stream: server busy");
}

#[tokio::test]
async fn rejected_request_has_the_servers_text() {
    let builder = OllamaServer::builder().api_key("right").models(["another"]);
    let server = builder.start(["never sent"]).await.unwrap();
    for (provider, text) in [
        (provider(server.url()), "authentication failed: 401: unauthorized"),
        (provider(server.url()).api_key("wrong"), "authentication failed: 401: unauthorized"),
        (
            provider(server.url()).api_key("right"),
            "model not found: 404: model 'llama3.2' not found; `ollama pull llama3.2` gets it",
        ),
    ] {
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn refused_connection_error_has_a_hint() {
    let server = RawServer::bind().await;
    let url = server.url();
    drop(server);
    let error = soon(provider(&url).complete(ask("hi"))).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("network error: {url}: ")), "{error}");
    assert!(error.ends_with("is Ollama running there? `ollama serve` starts it"), "{error}");
}
