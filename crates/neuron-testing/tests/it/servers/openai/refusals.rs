//! Tests of rejected requests, and of the format of errors.

use std::time::Duration;

use neuron_testing::{OpenAiServer, ServerReply};
use neuron_types::ProviderError;
use serde_json::{Value, json};

use super::{CHAT, EMBEDDINGS, RESPONSES, ask, post, start};
use crate::servers::http::{Answer, Client, exchange};

#[track_caller]
fn check_refused(answer: &Answer, status: u16, code: Value, message: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    let error = &answer.json()["error"];
    assert_eq!((&error["message"], &error["code"]), (&json!(message), &code));
    assert_eq!(error["type"], "invalid_request_error");
    assert!(error.get("param").is_some());
}

#[tokio::test]
async fn invalid_requests_are_rejected_like_openai() {
    let server = OpenAiServer::builder()
        .api_key("secret-key-of-many-letters")
        .models(["gpt-4.1"])
        .start(["hello"])
        .await
        .unwrap();
    let key = ("authorization", "Bearer secret-key-of-many-letters");
    let good = ask(CHAT, json!({}));
    let send = async |path: &str, headers: &[(&str, &str)], body: &Value| {
        exchange(&server.url(), path, headers, body).await
    };

    let nobody = send(CHAT, &[], &good).await;
    let text = "You didn't provide an API key. You need to provide your API key in an \
                Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
    check_refused(&nobody, 401, Value::Null, text);
    let wrong = |key| {
        format!(
            "Incorrect API key provided: {key}. You can find your API key at \
             https://platform.openai.com/account/api-keys."
        )
    };
    for (key, masked) in [("short", "*****"), ("sk-abcdefghijklmnop", "sk-a***********mnop")] {
        let bearer = format!("Bearer {key}");
        let answer = send(RESPONSES, &[("authorization", bearer.as_str())], &good).await;
        check_refused(&answer, 401, json!("invalid_api_key"), &wrong(masked));
    }

    for path in ["GET /v1/chat/completions", "POST /chat/completions", "POST /v1/completions"] {
        let answer = send(path, &[key], &good).await;
        check_refused(&answer, 404, Value::Null, &format!("Invalid URL ({path})"));
    }

    let mut client = Client::connect(&server.url()).await.unwrap();
    client.send(CHAT, &[key], b"{").await.unwrap();
    let answer = client.receive().await.unwrap();
    assert_eq!(answer.status, 400);
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("We could not parse the JSON body of your request."), "{message}");

    let other = ask(CHAT, json!({"model": "gpt-9"}));
    let text = "The model `gpt-9` does not exist or you do not have access to it.";
    check_refused(&send(CHAT, &[key], &other).await, 404, json!("model_not_found"), text);
    let unknown = ask(CHAT, json!({"top_k": 3}));
    let text = "Unknown parameter: 'top_k'.";
    check_refused(&send(CHAT, &[key], &unknown).await, 400, json!("unknown_parameter"), text);

    assert_eq!(server.remaining(), 1);
    assert_eq!(send(CHAT, &[key], &good).await.status, 200);
    assert!(!format!("{:?}", server.requests()).contains("secret"));
}

#[tokio::test]
async fn each_endpoint_has_its_own_rules() {
    let server = start(["never sent"]).await;
    let answer = post(&server, RESPONSES, json!({"messages": []})).await;
    assert_eq!(answer.json()["error"]["code"], "unsupported_parameter");
    let answer = post(&server, CHAT, json!({"input": "hi"})).await;
    assert_eq!(answer.json()["error"]["code"], "unknown_parameter");
    let answer = post(&server, EMBEDDINGS, json!({"input": []})).await;
    assert_eq!(answer.json()["error"]["code"], "empty_array");
    assert_eq!(server.remaining(), 1);
}

#[tokio::test]
async fn scripted_errors_have_their_status_and_headers() {
    let limited = || ProviderError::RateLimit { retry_after: Some(Duration::from_secs(2)) };
    let broke = ProviderError::InsufficientResources("You exceeded your current quota".into());
    let server = start([
        limited().into(),
        broke.into(),
        ServerReply::from(limited()).header("retry-after-ms", "20"),
    ])
    .await;
    let answer = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2")));
    assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    let answer = post(&server, RESPONSES, json!({"stream": true})).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
    let error = &answer.json()["error"];
    let quota = json!("insufficient_quota");
    assert_eq!((&error["type"], &error["code"]), (&quota, &quota));
    let answer = post(&server, CHAT, json!({})).await;
    assert_eq!(answer.header("retry-after-ms"), Some("20"));
}

#[tokio::test]
async fn request_after_the_last_reply_is_an_error() {
    let server = start(Vec::<ServerReply>::new()).await;
    let text = "the script has 0 replies and this is call 1; its last message is \
                {\"role\":\"user\",\"content\":\"hi\"}";
    check_refused(&post(&server, CHAT, json!({})).await, 400, Value::Null, text);
    let text = "the script has 0 replies and this is call 2; its last message is \"hi\"";
    check_refused(&post(&server, RESPONSES, json!({})).await, 400, Value::Null, text);
}
