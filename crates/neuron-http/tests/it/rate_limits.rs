//! Tests of the log of rate limits, whose errors have no text.

use std::io;
use std::sync::{Arc, Mutex};

use futures_util::future::join;
use neuron_http::http::{HeaderMap, HeaderValue};
use neuron_http::{Endpoint, Rejection, Secret};
use neuron_model::ProviderError;
use neuron_testing::RawServer;

/// The log of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error and the log of a request that is rejected with this status and body.
async fn rejected(status: &str, body: &str) -> (ProviderError, String) {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::new("sk-hunter2"));
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut value = HeaderValue::from_static("my-other-secret");
    value.set_sensitive(true);
    let headers = HeaderMap::from_iter([("x-gateway-key".parse().unwrap(), value)]);
    let serve = async {
        let mut connection = server.request().await;
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nx-request-id: req_7\r\ncontent-length: {length}");
        connection.write(format!("{head}\r\n\r\n{body}")).await;
    };
    let ask = endpoint.post("v1", headers, b"{}".to_vec(), Rejection::error);
    let error = join(ask, serve).await.0.unwrap_err();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (error, text)
}

/// Regression test. The text of the vendor and the request id were lost.
#[tokio::test]
async fn text_and_request_id_of_a_rate_limit_are_logged_without_secrets() {
    let body =
        r#"{"error": {"type": "tokens", "message": "limit of sk-hunter2 and my-other-secret"}}"#;
    let (error, log) = rejected("429 Too Many Requests", body).await;
    assert!(matches!(error, ProviderError::RateLimit { retry_after: None }), "{error}");
    let text = "429 tokens: limit of [redacted] and [redacted] (request id req_7)";
    assert!(log.contains(text) && log.contains("INFO"), "{log}");
    let (error, log) = rejected("400 Bad Request", body).await;
    assert_eq!(error.to_string(), format!("invalid request: {}", text.replace("429", "400")));
    assert!(!log.contains("redacted"), "the error has the text: {log}");
}
