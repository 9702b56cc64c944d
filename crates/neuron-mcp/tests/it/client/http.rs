//! Tests of headers, HTTP errors, redirects and size limits of the client over Streamable HTTP.

mod legacy;
mod sessions;
mod slow;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use neuron_mcp::{HttpConfig, McpClient, McpError, McpLimitExceeded, McpVersion};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lists::list_with_a_deep_schema;
use crate::script::{said, text};

/// A received HTTP request. `message` is the JSON body, or `null` if the body is not JSON.
struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    message: Value,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns `true` if the message has this JSON-RPC method.
    fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// Returns an HTTP response that contains the JSON-RPC response to this request, with the given result.
    fn result(&self, result: Value) -> Response<Full<Bytes>> {
        json(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }))
    }

    /// Returns the response to this request of a server with version 2025-11-25, one tool and no sessions.
    fn served(&self) -> Response<Full<Bytes>> {
        match self.message["method"].as_str() {
            _ if self.method != Method::POST => status(405),
            Some("initialize") => self.result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "http", "version": "1" },
            })),
            Some("tools/call") => self.result(said("hello")),
            Some(method) if method.starts_with("notifications/") => status(202),
            _ => status(400),
        }
    }
}

fn status(status: u16) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::default()).unwrap()
}

/// Returns an empty response with one header.
fn with(status: u16, header: &str, value: &str) -> Response<Full<Bytes>> {
    Response::builder().status(status).header(header, value).body(Full::default()).unwrap()
}

fn json(message: &Value) -> Response<Full<Bytes>> {
    let body = Full::from(message.to_string());
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}

/// A running HTTP server. Stops when dropped.
struct Server {
    url: String,
    _tasks: JoinSet<()>,
}

/// Starts a server that responds with the result of `answer`.
async fn serve(answer: impl Fn(Asked) -> Response<Full<Bytes>> + Send + Sync + 'static) -> Server {
    serve_slowly(move |asked| std::future::ready(answer(asked))).await
}

/// Starts a server that responds with the output of the future that `answer` returns.
async fn serve_slowly<F>(answer: impl Fn(Asked) -> F + Send + Sync + 'static) -> Server
where
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let asked = Asked {
                        method: parts.method,
                        path: parts.uri.path().to_owned(),
                        headers: parts.headers,
                        message: serde_json::from_slice(&body).unwrap_or_default(),
                    };
                    Ok::<_, Infallible>(answer(asked).await)
                }
            });
            connections.spawn(async move {
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Server { url, _tasks: tasks }
}

fn config(url: &str) -> HttpConfig {
    HttpConfig { url: url.to_owned(), ..Default::default() }
}

/// Calls the tool `greet`, and returns the text of the result.
async fn greet(client: &McpClient) -> Result<String, McpError> {
    client.call_tool_json("greet", Value::Null).await.map(|output| text(&output))
}

#[tokio::test]
async fn configured_headers_are_sent_with_every_request() {
    for (auth_header, expected) in [
        ("Bearer my-token", "Bearer my-token"),
        ("Basic YTpi", "Basic YTpi"),
        ("my-token", "Bearer my-token"),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = serve({
            let seen = Arc::clone(&seen);
            move |asked| {
                let header = |name| asked.header(name).map(str::to_owned);
                seen.lock().unwrap().push((header("authorization"), header("x-team")));
                asked.served()
            }
        })
        .await;
        let client = McpClient::connect_http(HttpConfig {
            url: server.url.clone(),
            auth_header: Some(auth_header.to_owned()),
            headers: vec![("X-Team".to_owned(), "a".to_owned())],
        })
        .await
        .unwrap();
        assert_eq!(client.version(), McpVersion::V2025_11_25);
        assert_eq!(greet(&client).await.unwrap(), "hello");
        client.close().await;
        let seen = seen.lock().unwrap();
        assert!(seen.len() >= 4, "{seen:?}");
        for (authorization, team) in &*seen {
            assert_eq!(authorization.as_deref(), Some(expected));
            assert_eq!(team.as_deref(), Some("a"));
        }
    }
}

#[tokio::test]
async fn unauthorized_connect_error_contains_status_or_scope() {
    for (answer, told) in [
        (with(401, "www-authenticate", "Bearer"), "401"),
        (status(401), "401"),
        (with(403, "www-authenticate", "Bearer error=\"insufficient_scope\", scope=\"a\""), "`a`"),
        (status(403), "403"),
    ] {
        let server = serve(move |_| answer.clone()).await;
        let error = McpClient::connect_http(config(&server.url)).await.unwrap_err();
        assert!(matches!(&error, McpError::Connection(text) if text.contains(told)), "{error}");
    }
}

#[tokio::test]
async fn forbidden_request_fails_and_keeps_the_connection() {
    let server = serve(|asked| match asked.is("tools/list") {
        true => status(403),
        false => asked.served(),
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let error = client.list_tools(None).await.unwrap_err();
    assert!(matches!(&error, McpError::Transport(text) if text.contains("403")), "{error}");
    assert_eq!(greet(&client).await.unwrap(), "hello");
}

#[tokio::test]
async fn redirect_to_another_server_is_not_followed() {
    let server = serve(|asked| match asked.path.as_str() {
        "/mcp" => with(307, "location", "/mcp/"),
        _ => asked.served(),
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    assert_eq!(greet(&client).await.unwrap(), "hello");

    let elsewhere = format!("{}/", server.url);
    let other = serve(move |_| with(307, "location", &elsewhere)).await;
    let error = McpClient::connect_http(config(&other.url)).await.unwrap_err();
    assert!(error.to_string().contains("307"), "{error}");
}

#[tokio::test]
async fn unreadable_response_is_reported_as_a_parse_error() {
    let server = serve(|asked| match asked.is("tools/list") {
        true => with(200, "content-type", "application/json"),
        false => asked.served(),
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let error = client.list_tools(None).await.unwrap_err();
    let McpError::Transport(text) = error else { panic!("{error}") };
    assert!(text.starts_with("tools/list failed: ") && text.contains("could not parse"), "{text}");
}

#[tokio::test]
async fn too_long_response_is_an_error() {
    let server = serve(|asked| match asked.is("tools/list") {
        true => json(&json!("x".repeat(100_000))),
        false => asked.served(),
    })
    .await;
    let builder = McpClient::builder().max_message_bytes(50_000);
    let client = builder.connect_http(config(&server.url)).await.unwrap();
    let error = client.list_tools(None).await.unwrap_err();
    let McpError::Other(error) = error else { panic!("{error}") };
    let exceeded: &McpLimitExceeded = error.downcast_ref().unwrap();
    assert_eq!(
        (exceeded.limit, exceeded.unit, exceeded.setting),
        (50_000, "bytes", Some("max_message_bytes"))
    );
    assert_eq!(greet(&client).await.unwrap(), "hello");
}

/// Returns a response whose body is a stream of server-sent events.
fn events(body: String) -> Response<Full<Bytes>> {
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(Full::from(body)).unwrap()
}

/// Regression test. One deep schema made the whole list unreadable.
#[tokio::test]
async fn tool_with_a_deep_schema_is_skipped() {
    let in_event = |text: String| events(format!("data: {text}\n\n"));
    let in_body = |text: String| {
        let response = Response::builder().header("content-type", "application/json");
        response.body(Full::from(text)).unwrap()
    };
    for (respond, requests) in [(in_event as fn(String) -> _, 1), (in_body, 2)] {
        let lists = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lists);
        let server = serve(move |asked| match asked.is("tools/list") {
            // As the servers of the SDKs do.
            true if asked.header("accept") != Some("text/event-stream, application/json") => {
                status(406)
            }
            true => {
                seen.lock().unwrap().push((asked.message.clone(), asked.headers.clone()));
                let (id, result) = (&asked.message["id"], list_with_a_deep_schema());
                respond(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
            }
            false => asked.served(),
        })
        .await;
        let client = McpClient::connect_http(config(&server.url)).await.unwrap();
        let tools = client.list_tools(None).await.unwrap().items;
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["flat"]);
        // The SDK drops the text of a response that it cannot parse, so the list is requested again.
        let lists = lists.lock().unwrap();
        assert_eq!(lists.len(), requests);
        for (message, headers) in lists.iter() {
            assert_eq!(message, &lists[0].0);
            assert_eq!(headers.get("mcp-protocol-version").unwrap(), "2025-11-25");
            assert_eq!(headers.get("content-type").unwrap(), "application/json");
        }
    }
}

#[tokio::test]
async fn too_long_event_is_an_error() {
    let server = serve(|asked| match asked.is("tools/list") {
        true => events(format!("data: \"{}\"\n\n", "x".repeat(100_000))),
        false => asked.served(),
    })
    .await;
    let builder = McpClient::builder().max_message_bytes(50_000);
    let client = builder.connect_http(config(&server.url)).await.unwrap();
    let error = client.list_tools(None).await.unwrap_err();
    let text = "tools/list: the server's answer has more than 50000 bytes, a limit of this client \
                (`max_message_bytes`)";
    assert_eq!(error.to_string(), text);
    let McpError::Other(error) = error else { panic!("{error:?}") };
    assert!(error.is::<McpLimitExceeded>(), "{error:?}");
    assert_eq!(greet(&client).await.unwrap(), "hello");
}

#[tokio::test]
async fn event_stream_without_a_response_is_an_error() {
    let server = serve(|asked| match asked.is("tools/list") {
        true => events(": nothing\n\n".to_owned()),
        false => asked.served(),
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let error = client.list_tools(None).await.unwrap_err();
    assert!(matches!(error, McpError::Transport(_)), "{error}");
    assert_eq!(greet(&client).await.unwrap(), "hello");
}

/// A server sets the pause before the client opens a stream again. Without a minimum, `retry: 0` made the client send
/// requests without end.
#[tokio::test]
async fn stream_is_not_opened_again_without_a_pause() {
    let (sender, mut opened) = mpsc::unbounded_channel();
    let server = serve(move |asked| {
        if asked.method == Method::GET {
            sender.send(Instant::now()).ok();
            return events("id: 1\nretry: 0\ndata: {}\n\n".to_owned());
        }
        let mut response = asked.served();
        if asked.is("initialize") {
            response.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
        }
        response
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let first = opened.recv().await.unwrap();
    opened.recv().await.unwrap();
    let third = opened.recv().await.unwrap();
    assert!(third - first >= Duration::from_secs(1), "{:?}", third - first);
    drop(client);
}

#[tokio::test]
async fn html_page_is_not_accepted_as_a_server() {
    let server = serve(|_| with(200, "content-type", "text/html")).await;
    let error = McpClient::connect_http(config(&server.url)).await.unwrap_err();
    assert!(matches!(&error, McpError::Connection(text) if text.contains("text/html")), "{error}");
}

/// Returns a configuration for an address without a server. The query contains a secret.
fn unreachable(headers: &[(&str, &str)], auth_header: Option<&str>) -> HttpConfig {
    HttpConfig {
        url: "http://127.0.0.1:1/mcp?key=hunter2".to_owned(),
        auth_header: auth_header.map(str::to_owned),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

#[tokio::test]
async fn invalid_header_error_omits_the_value() {
    for (headers, auth_header, named) in [
        (&[("bad name", "hunter2")][..], None, "bad name"),
        (&[("x-key", "hunter2\n")], None, "x-key"),
        (&[("Accept", "hunter2")], None, "Accept"),
        (&[("Mcp-Session-Id", "hunter2")], None, "Mcp-Session-Id"),
        (&[("Mcp-Name", "hunter2")], None, "Mcp-Name"),
        (&[("x-key", "hunter2"), ("X-Key", "hunter2")], None, "X-Key"),
        (&[], Some("Bearer hunter2\u{7f}"), "Authorization"),
        (&[("authorization", "hunter2")], Some("Bearer hunter2"), "auth_header"),
    ] {
        let config = unreachable(headers, auth_header);
        let error = McpClient::connect_http(config).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, McpError::Connection(_)), "{text}");
        assert!(text.contains(named) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn unreachable_server_error_omits_the_query() {
    let error = McpClient::connect_http(unreachable(&[], None)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, McpError::Connection(_)), "{text}");
    assert!(text.contains("http://127.0.0.1:1/mcp") && !text.contains("hunter2"), "{text}");
}
