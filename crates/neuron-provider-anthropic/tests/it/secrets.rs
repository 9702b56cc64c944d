//! The key is sent, and shown nowhere.

use neuron_provider_anthropic::Anthropic;
use neuron_testing::{AnthropicServer, ServerReply};
use neuron_types::{Provider, ProviderError};
use serde_json::json;

use crate::support::*;

const KEY: &str = "sk-ant-secret/1";

#[track_caller]
fn check(error: &ProviderError) {
    let mut shown = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        shown.push_str(&format!("{error} {error:?}"));
        source = error.source();
    }
    assert!(!shown.contains("secret"), "{shown}");
}

async fn server(replies: Vec<ServerReply>) -> (AnthropicServer, Anthropic) {
    let builder = AnthropicServer::builder().api_key(KEY);
    let server = builder.start(replies).await.unwrap();
    let provider = Anthropic::new(KEY).base_url(server.url());
    (server, provider)
}

#[tokio::test]
async fn a_server_that_echoes_the_key() {
    let error = |message: &str| json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": KEY});
    let escaped = error("K").to_string().replace("\"K\"", r#""sk-ant-secret\/1""#);
    let mut replies = Vec::new();
    for status in [307, 400, 401, 402, 404, 418, 429, 500, 529] {
        for body in [
            error(KEY).to_string(),
            escaped.clone(),
            format!("<html>{KEY}</html>"),
            format!("{}{KEY}", "x".repeat(290)),
            String::new(),
        ] {
            let reply = ServerReply::raw(status, [("request-id", KEY)], body);
            replies.push(reply.header("location", format!("http://h/?key={KEY}")));
        }
    }
    for body in [format!("{{\"content\":\"{KEY}\"}}"), KEY.to_owned()] {
        replies.push(ServerReply::raw(200, [("content-type", KEY)], body));
    }
    let both = replies.iter().flat_map(|reply| [reply.clone(), reply.clone()]);
    let (server, provider) = server(both.collect()).await;
    for _ in replies {
        check(&provider.complete(ask("hi")).await.unwrap_err());
        check(&provider.complete_stream(ask("hi")).await.unwrap_err());
    }
    server.assert_complete();
    assert!(!format!("{provider:?} {provider:#?}").contains("sk-ant"));
}

#[tokio::test]
async fn a_stream_that_echoes_the_key() {
    let kinds = ["api_error", "overloaded_error", "authentication_error", "billing_error"];
    let errors = kinds.map(|kind| {
        json!({"type": "error", "error": {"type": kind, "message": KEY}, "request_id": KEY})
            .to_string()
    });
    let broken_json = [KEY.to_owned(), format!("{}{KEY}", "x".repeat(190))];
    let bodies: Vec<_> = errors.into_iter().chain(broken_json).collect();
    let count = bodies.len();
    let replies = bodies.into_iter().map(|data| {
        let headers = [("content-type", "text/event-stream")];
        ServerReply::raw(200, headers, format!("data: {data}\n\n"))
    });
    let (_server, provider) = server(replies.collect()).await;
    for _ in 0..count {
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        let events = events(handle).await;
        assert!(!format!("{events:?}").contains("secret"));
        check(&broken(events));
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry() {
    let server = start(["never sent"]).await;
    for key in ["sk\nsecret", "sk-secret\n", "sk\0secret"] {
        let provider = Anthropic::new(key).base_url(server.url());
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.kind(), "Authentication");
        assert!(error.to_string().contains("no header can carry"), "{error}");
        check(&error);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let listener = RawServer::bind().await;
    let url = listener.url();
    drop(listener);
    let provider = Anthropic::new(KEY).base_url(format!("{url}/{KEY}"));
    check(&soon(provider.complete(ask("hi"))).await.unwrap_err());
}
