//! The key is sent, and shown nowhere.

use neuron_provider_openai::OpenAi;
use neuron_testing::{OpenAiServer, ServerReply};
use neuron_types::{EmbeddingProvider, EmbeddingRequest, Provider};
use serde_json::json;

use crate::support::*;

const KEY: &str = "sk-proj-secret/1";

#[track_caller]
fn check(error: &(dyn std::error::Error + 'static)) {
    let mut shown = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        shown.push_str(&format!("{error} {error:?}"));
        source = error.source();
    }
    assert!(!shown.contains("secret"), "{shown}");
}

async fn server(api: Api, replies: Vec<ServerReply>) -> (OpenAiServer, OpenAi) {
    let server = OpenAiServer::builder().api_key(KEY).start(replies).await.unwrap();
    let provider = api.with(OpenAi::new(KEY).base_url(server.url()));
    (server, provider)
}

#[tokio::test]
async fn a_server_that_echoes_the_key() {
    let error = |key: &str| json!({"error": {"message": key, "type": key, "code": key}});
    let escaped = error("K").to_string().replace("\"K\"", r#""sk-proj-secret\/1""#);
    let mut replies = Vec::new();
    for status in [307, 400, 401, 402, 404, 418, 429, 500, 503] {
        for body in [
            error(KEY).to_string(),
            escaped.clone(),
            format!("<html>{KEY}</html>"),
            format!("{}{KEY}", "x".repeat(290)),
            String::new(),
        ] {
            let reply = ServerReply::raw(status, [("x-request-id", KEY)], body);
            replies.push(reply.header("location", format!("http://h/?key={KEY}")));
        }
    }
    for body in [error(KEY).to_string(), format!("{{\"choices\":\"{KEY}\"}}"), KEY.to_owned()] {
        replies.push(ServerReply::raw(200, [("content-type", KEY)], body.clone()));
        replies.push(ServerReply::raw(200, [("content-type", "application/json")], body));
    }
    for api in APIS {
        let thrice = replies.iter().flat_map(|reply| vec![reply.clone(); 3]);
        let (server, provider) = server(api, thrice.collect()).await;
        for _ in &replies {
            check(&provider.complete(ask("hi")).await.unwrap_err());
            check(&provider.complete_stream(ask("hi")).await.unwrap_err());
            let request = EmbeddingRequest { input: vec!["hi".into()], ..Default::default() };
            check(&provider.embed(request).await.unwrap_err());
        }
        server.assert_complete();
        assert!(!format!("{provider:?} {provider:#?}").contains("sk-proj"));
    }
}

#[tokio::test]
async fn a_stream_that_echoes_the_key() {
    let kinds = ["server_error", "server_is_overloaded", "invalid_api_key", "insufficient_quota"];
    let errors = kinds.iter().flat_map(|kind| {
        let error = json!({"message": KEY, "type": kind, "code": null});
        [
            json!({"error": error}).to_string(),
            json!({"type": "error", "error": error}).to_string(),
            json!({"type": "response.failed", "response": {"status": "failed", "error": error}})
                .to_string(),
        ]
    });
    let broken_json = [KEY.to_owned(), format!("{}{KEY}", "x".repeat(290))];
    let bodies: Vec<_> = errors.chain(broken_json).collect();
    for api in APIS {
        let replies = bodies.iter().map(|data| {
            let headers = [("content-type", "text/event-stream")];
            ServerReply::raw(200, headers, format!("data: {data}\n\n"))
        });
        let (_server, provider) = server(api, replies.collect()).await;
        for _ in &bodies {
            let handle = provider.complete_stream(ask("hi")).await.unwrap();
            let events = events(handle).await;
            assert!(!format!("{events:?}").contains("secret"));
            check(&broken(events));
        }
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry() {
    let server = start(["never sent"]).await;
    for key in ["sk\nsecret", "sk-secret\n", "sk\0secret"] {
        let provider = OpenAi::new(key).base_url(server.url());
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.kind(), "Authentication");
        check(&error);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let listener = RawServer::bind().await;
    let url = listener.url();
    drop(listener);
    let provider = OpenAi::new(KEY).base_url(format!("{url}/{KEY}"));
    check(&soon(provider.complete(ask("hi"))).await.unwrap_err());
}
