//! The key is sent, and shown nowhere.

use neuron_provider_ollama::Ollama;
use neuron_testing::{OllamaServer, ServerReply};
use neuron_types::{Provider, ProviderError};
use serde_json::json;

use crate::support::*;

const KEY: &str = "sk-secret/1";

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

async fn server(replies: Vec<ServerReply>) -> (OllamaServer, Ollama) {
    let builder = OllamaServer::builder().api_key(KEY);
    let server = builder.start(replies).await.unwrap();
    let provider = Ollama::new().api_key(KEY).base_url(server.url());
    (server, provider)
}

#[tokio::test]
async fn a_server_that_echoes_the_key() {
    let error = json!({"error": KEY, "signin_url": KEY}).to_string();
    let escaped = error.replace(KEY, "sk-secret\\/1");
    let mut replies = Vec::new();
    for status in [307, 400, 401, 402, 404, 418, 429, 499, 500, 503] {
        for body in [
            error.clone(),
            escaped.clone(),
            json!({"error": {"message": KEY, "type": KEY}}).to_string(),
            format!("<html>{KEY}</html>"),
            format!("{}{KEY}", "x".repeat(290)),
            String::new(),
        ] {
            let reply = ServerReply::raw(status, [("x", KEY)], body);
            replies.push(reply.header("location", format!("http://h/?key={KEY}")));
        }
    }
    for body in [format!("{{\"message\":\"{KEY}\"}}"), KEY.to_owned()] {
        replies.push(ServerReply::raw(200, [("content-type", KEY)], body));
    }
    let both = replies.iter().flat_map(|reply| [reply.clone(), reply.clone()]);
    let (server, provider) = server(both.collect()).await;
    for _ in replies {
        check(&provider.complete(ask("hi")).await.unwrap_err());
        check(&provider.complete_stream(ask("hi")).await.unwrap_err());
    }
    server.assert_complete();
    assert!(!format!("{provider:?} {provider:#?}").contains("sk-secret"));
}

#[tokio::test]
async fn a_stream_that_echoes_the_key() {
    let words = ["", "model 'x' not found ", "server busy ", "out of memory ", "unauthorized "];
    let errors = words.map(|words| json!({"error": format!("{words}{KEY}")}).to_string());
    let broken_json = [KEY.to_owned(), format!("{}{KEY}", "x".repeat(190))];
    let bodies: Vec<_> = errors.into_iter().chain(broken_json).collect();
    let count = bodies.len();
    let replies = bodies.into_iter().map(|line| {
        let headers = [("content-type", "application/x-ndjson")];
        ServerReply::raw(200, headers, format!("{line}\n"))
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
        let provider = Ollama::new().api_key(key).base_url(server.url());
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
    let provider = Ollama::new().api_key(KEY).base_url(format!("{url}/{KEY}"));
    check(&soon(provider.complete(ask("hi"))).await.unwrap_err());
}
