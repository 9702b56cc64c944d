//! Tests of `VendorServer` with a vendor that is not part of `neuron-testing`.

use neuron_testing::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer};
use neuron_testing::{RecordedRequest, Reply, ServerReply, Wire};
use neuron_types::{EmbeddingResponse, ProviderError};
use serde_json::{Value, json};

use crate::servers::http::{self, exchange};

/// A vendor that sends the plain text of a response. A streamed response has one word per line.
#[derive(Debug, Default)]
struct Plain {
    /// A text at the end of every response.
    end: &'static str,
}

impl Vendor for Plain {
    type Detail = ();
    type Error = String;

    fn check(&self, request: &RecordedRequest, rules: &Rules) -> Result<Call<()>, String> {
        if !rules.accepts_key(request.header("x-key")) {
            return Err("who are you?".into());
        }
        let body = request.json.as_ref().ok_or("speak JSON")?;
        let model = body["model"].as_str().unwrap_or_default();
        if !rules.has_model(model) {
            return Err(format!("no {model} here"));
        }
        Ok(Call::new(model, body["stream"] == true, ()))
    }

    fn error(&self, error: &ProviderError) -> String {
        error.to_string()
    }

    fn body(&self, answer: &Answer<'_, ()>) -> Result<Value, String> {
        Ok(json!({"says": answer.response.message.text() + self.end}))
    }

    fn frames(&self, answer: &Answer<'_, ()>) -> Vec<Vec<u8>> {
        let text = answer.response.message.text() + self.end;
        text.split_inclusive(' ').map(|word| answer.wire.json_line(&json!(word))).collect()
    }

    fn error_reply(&self, error: &String, request_id: &str) -> ErrorReply {
        ErrorReply::new(418, json!({"error": error})).header("x-error-of", request_id)
    }

    fn error_frames(&self, answer: &Answer<'_, ()>, sent: usize, error: &String) -> Vec<Vec<u8>> {
        vec![answer.wire.json_line(&json!({"sent": sent, "error": error}))]
    }

    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        vec![("x-id".into(), request_id.into())]
    }

    fn stream_type(&self) -> &'static str {
        "application/x-ndjson"
    }
}

async fn ask(server: &VendorServer<Plain>, body: &Value) -> http::Answer {
    let headers = [("x-key", VendorServer::<Plain>::API_KEY)];
    exchange(&server.url(), "POST /any", &headers, body).await
}

#[tokio::test]
async fn custom_vendor_uses_script_key_models_and_record() {
    let server = VendorServer::<Plain>::builder().models(["m"]).start(["hello"]).await.unwrap();
    let refused = ask(&server, &json!({"model": "x", "messages": ["a", "last"]})).await;
    assert_eq!((refused.status, refused.json()), (418, json!({"error": "no x here"})));
    assert_eq!(refused.header("x-id"), Some("req_1"));
    assert_eq!(refused.header("x-error-of"), Some("req_1"));
    let stranger = exchange(&server.url(), "POST /any", &[], &json!({"model": "m"})).await;
    assert_eq!(stranger.json(), json!({"error": "who are you?"}));

    let body = json!({"model": "m", "messages": ["a", "last"]});
    assert_eq!(ask(&server, &body).await.json(), json!({"says": "hello"}));
    server.assert_complete();
    assert_eq!(
        ask(&server, &body).await.json()["error"],
        "invalid request: the script has 1 reply and this is call 2; its last message is \"last\""
    );
    assert_eq!(server.bodies()[2], body);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn custom_vendor_encodes_stream_errors() {
    let busy = ProviderError::ServiceUnavailable("busy".into());
    let server = VendorServer::<Plain>::start([
        Reply::text("one two three"),
        Reply::text("one two three").fail_after(1, busy),
    ])
    .await
    .unwrap();
    let body = json!({"model": "m", "stream": true});
    let answer = ask(&server, &body).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(answer.lines(), ["one ", "two ", "three"]);
    let broken = ask(&server, &body).await;
    let error = json!({"sent": 1, "error": "service unavailable: busy"});
    assert_eq!(broken.lines(), [json!("one "), error]);
}

#[tokio::test]
async fn builder_accepts_a_vendor_with_settings() {
    let builder = neuron_testing::vendor::VendorServerBuilder::new(Plain { end: "!" });
    let server = builder
        .wire(Wire::default().crlf())
        .start([ServerReply::from("hello"), EmbeddingResponse::default().into()])
        .await
        .unwrap();
    assert_eq!(server.vendor().end, "!");
    let answer = ask(&server, &json!({"model": "m", "stream": true})).await;
    assert_eq!(answer.text(), "\"hello!\"\r\n");
    let refused = ask(&server, &json!({"model": "m"})).await;
    assert_eq!(
        refused.json()["error"],
        "invalid request: the script's reply holds embeddings, and this request asks for a message"
    );
}
