//! Tests of keys, paths and models, and of the error for a request after the last reply.

use neuron_testing::GeminiServer;
use serde_json::{Value, json};

use super::{EMBED, GENERATE, HEADERS, STREAM, ask, post, start};
use crate::servers::http::{Answer, Client, exchange};

const VERTEX: &str = "POST /v1beta1/projects/p/locations/global/publishers/google/models/\
                      gemini-3.8-flash:generateContent";
const EXPRESS: &str = "POST /v1beta1/publishers/google/models/gemini-3.8-flash:generateContent";

const BEARER: &[(&str, &str)] = &[("authorization", "Bearer test-key")];

async fn send(server: &GeminiServer, endpoint: &str, headers: &[(&str, &str)]) -> Answer {
    exchange(&server.url(), endpoint, headers, &ask(endpoint)).await
}

fn error_of(answer: &Answer) -> (u16, String, String) {
    let error = &answer.json()["error"];
    assert_eq!(error["code"], answer.status);
    let text = |key: &str| error[key].as_str().unwrap().to_owned();
    (answer.status, text("status"), text("message"))
}

#[tokio::test]
async fn each_path_has_its_own_kind_of_key() {
    let server = start(["one", "two", "three"]).await;
    let status = async |endpoint: &str, headers: &[(&str, &str)]| {
        let answer = send(&server, endpoint, headers).await;
        let status = answer.json()["error"]["status"].clone();
        (answer.status, status.as_str().unwrap_or_default().to_owned())
    };
    let denied = || (403, "PERMISSION_DENIED".to_owned());
    let unauthenticated = || (401, "UNAUTHENTICATED".to_owned());
    let wrong: &[(&str, &str)] = &[("x-goog-api-key", "other")];
    assert_eq!(status(GENERATE, &[]).await, denied());
    assert_eq!(status(GENERATE, BEARER).await, denied());
    assert_eq!(status(GENERATE, wrong).await, (400, "INVALID_ARGUMENT".into()));
    assert_eq!(status(VERTEX, HEADERS).await, unauthenticated());
    assert_eq!(status(VERTEX, &[("authorization", "Bearer other")]).await, unauthenticated());
    assert_eq!(status(EXPRESS, BEARER).await, denied());
    assert_eq!(server.remaining(), 3);
    assert_eq!(status(GENERATE, HEADERS).await.0, 200);
    assert_eq!(status(VERTEX, BEARER).await.0, 200);
    assert_eq!(status(EXPRESS, HEADERS).await.0, 200);

    let answer = send(&server, GENERATE, wrong).await;
    assert_eq!(answer.json()["error"]["details"][0]["reason"], "API_KEY_INVALID");
}

#[tokio::test]
async fn unknown_paths_and_models_are_not_found() {
    let models = ["gemini-embedding-2"];
    let server = GeminiServer::builder().models(models).start(["hello"]).await.unwrap();
    for path in [
        "POST /v1beta/models/gemini-embedding-2:countTokens",
        "POST /v2/models/gemini-embedding-2:generateContent",
        "GET /v1beta/models/gemini-embedding-2:generateContent",
        "POST /models/gemini-embedding-2:generateContent",
    ] {
        let answer = send(&server, path, HEADERS).await;
        let expected = (404, "NOT_FOUND".to_owned(), "Method not found.".to_owned());
        assert_eq!(error_of(&answer), expected, "{path}");
    }
    let message = "models/gemini-3.8-flash is not found for API version v1beta, or is not \
                   supported for generateContent. Call ListModels to see the list of available \
                   models and their supported methods.";
    let expected = (404, "NOT_FOUND".to_owned(), message.to_owned());
    assert_eq!(error_of(&post(&server, STREAM).await), expected);
    let (status, _, message) = error_of(&send(&server, VERTEX, BEARER).await);
    assert_eq!(status, 404);
    assert!(message.starts_with("Publisher Model `projects/p/"), "{message}");
    assert_eq!(post(&server, EMBED).await.status, 400, "the reply is a message");
}

#[tokio::test]
async fn invalid_bodies_take_no_reply() {
    let server = start(["hello"]).await;
    let mut client = Client::connect(&server.url()).await.unwrap();
    for (body, message) in [
        ("{", "Invalid JSON payload received. Expected a value."),
        ("[]", "Invalid value at '' (object), []"),
        ("{}", "* GenerateContentRequest.contents: contents is not specified"),
    ] {
        client.send(GENERATE, HEADERS, body.as_bytes()).await.unwrap();
        let answer = client.receive().await.unwrap();
        assert_eq!(error_of(&answer), (400, "INVALID_ARGUMENT".into(), message.into()));
    }
    assert_eq!(server.remaining(), 1);
    assert_eq!(post(&server, GENERATE).await.status, 200);
    let (status, _, message) = error_of(&post(&server, GENERATE).await);
    assert_eq!(status, 400);
    let last: Value = json!({"role": "user", "parts": [{"text": "hi"}]});
    assert!(message.ends_with(&format!("its last message is {last}")), "{message}");
}
