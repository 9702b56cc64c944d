//! Tests of keys, signatures, paths and models, and of the error for a request after the last reply.

use neuron_testing::BedrockServer;
use serde_json::{Value, json};

use super::{CONVERSE, HEADERS, ask, post, start};
use crate::servers::http::{Answer, Client, exchange};

/// Returns the status, the exception and the message of an error.
fn error_of(answer: &Answer) -> (u16, String, String) {
    let name = answer.header("x-amzn-errortype").unwrap().split(':').next().unwrap();
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    (answer.status, name.to_owned(), message)
}

/// Returns the name of the exception for a request with this `authorization` header.
async fn denial(server: &BedrockServer, authorization: &str) -> (u16, String) {
    let headers = [("authorization", authorization), ("x-amz-date", "20261127T193000Z")];
    let answer = exchange(&server.url(), CONVERSE, &headers, &ask()).await;
    let (status, name, _) = error_of(&answer);
    (status, name)
}

#[tokio::test]
async fn request_needs_a_key_or_a_signature() {
    let server = start(["hello"]).await;
    let missing = exchange(&server.url(), CONVERSE, &[], &ask()).await;
    assert_eq!(
        error_of(&missing),
        (403, "MissingAuthenticationTokenException".into(), "Missing Authentication Token".into())
    );
    let denied = |name: &str| (403, format!("{name}Exception"));
    assert_eq!(denial(&server, "Bearer other").await, denied("AccessDenied"));
    assert_eq!(denial(&server, "test-key").await, denied("AccessDenied"));
    let signed = |key: &str, service: &str| {
        format!(
            "AWS4-HMAC-SHA256 Credential={key}/20261127/us-east-1/{service}/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature=00"
        )
    };
    let own = BedrockServer::ACCESS_KEY_ID;
    assert_eq!(denial(&server, "AWS4-HMAC-SHA256 x").await, denied("IncompleteSignature"));
    assert_eq!(denial(&server, &signed("other", "bedrock")).await, denied("UnrecognizedClient"));
    let wrong = signed(own, "bedrock-runtime");
    assert_eq!(denial(&server, &wrong).await, denied("InvalidSignature"));
    assert_eq!(denial(&server, &signed(own, "bedrock")).await, denied("InvalidSignature"));
    assert_eq!(server.remaining(), 1);
    assert_eq!(post(&server, CONVERSE).await.status, 200);
}

#[tokio::test]
async fn signed_request_is_accepted_without_a_bearer_key() {
    // botocore 1.44.8 signed this request for the body `{"messages": [{"role": "user", "content": [{"text": "hi"}]}]}`
    // without the spaces, and for the host `localhost`, which the client of these tests sends.
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261127/eu-west-1/bedrock/\
                         aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=\
                         c53190f528f676f8c549a635da84658aaf4c61a2f04308c16acb6b51bc2542df";
    let headers = [
        ("authorization", authorization),
        ("content-type", "application/json"),
        ("x-amz-date", "20261127T193000Z"),
    ];
    let server = start(["hello"]).await;
    let spoiled = headers.map(|(name, value)| match name {
        "content-type" => (name, "text/plain"),
        _ => (name, value),
    });
    assert_eq!(exchange(&server.url(), CONVERSE, &spoiled, &ask()).await.status, 403);
    assert_eq!(exchange(&server.url(), CONVERSE, &headers, &ask()).await.status, 200);
}

#[tokio::test]
async fn unknown_paths_and_models_are_rejected() {
    let models = ["us.anthropic.claude-sonnet-4-5-20250929-v1:0"];
    let server = BedrockServer::builder().models(models).start(["hello"]).await.unwrap();
    for path in [
        "POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke",
        "POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens",
        "GET /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
        "POST /converse",
    ] {
        let answer = exchange(&server.url(), path, HEADERS, &ask()).await;
        assert_eq!(error_of(&answer).1, "UnknownOperationException", "{path}");
    }
    let other = exchange(&server.url(), "POST /model/other/converse", HEADERS, &ask()).await;
    let message = "The provided model identifier is invalid.";
    assert_eq!(error_of(&other), (400, "ValidationException".into(), message.into()));
    assert_eq!(post(&server, CONVERSE).await.status, 200);
}

#[tokio::test]
async fn invalid_bodies_take_no_reply() {
    let server = start(["hello"]).await;
    let mut client = Client::connect(&server.url()).await.unwrap();
    for (body, exception) in [
        ("{", "SerializationException"),
        ("[]", "SerializationException"),
        ("{}", "ValidationException"),
    ] {
        client.send(CONVERSE, HEADERS, body.as_bytes()).await.unwrap();
        let (status, name, _) = error_of(&client.receive().await.unwrap());
        assert_eq!((status, name.as_str()), (400, exception), "{body}");
    }
    assert_eq!(server.remaining(), 1);
    assert_eq!(post(&server, CONVERSE).await.status, 200);
    let (status, _, message) = error_of(&post(&server, CONVERSE).await);
    assert_eq!(status, 400);
    let last: Value = json!({"role": "user", "content": [{"text": "hi"}]});
    assert!(message.ends_with(&format!("its last message is {last}")), "{message}");
}
