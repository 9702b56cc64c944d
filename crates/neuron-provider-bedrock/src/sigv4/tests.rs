//! Tests of signatures. Their expected values are those of botocore 1.44.5 for the same keys, time and body.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const BODY: &str = r#"{"messages": [{"role": "user", "content": [{"text": "h\u00e9llo"}]}]}"#;

/// 2026-11-27, 12:34:56 UTC.
const SECONDS: u64 = 1_795_782_896;

/// Returns the example key of AWS's documentation.
fn credentials(token: Option<&str>) -> Credentials {
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    Credentials::new("AKIDEXAMPLE", secret, token.map(str::to_owned), None, "test")
}

fn headers(token: Option<&str>, region: &str, url: &str) -> Result<HeaderMap, ProviderError> {
    let time = UNIX_EPOCH + Duration::from_secs(SECONDS);
    let uri = url.parse().unwrap();
    signed_headers(&credentials(token), region, &uri, BODY.as_bytes(), time)
}

#[track_caller]
fn check(token: Option<&str>, region: &str, url: &str, signature: &str) {
    let headers = headers(token, region, url).unwrap();
    let names = match token {
        Some(_) => "content-type;host;x-amz-date;x-amz-security-token",
        None => "content-type;host;x-amz-date",
    };
    assert_eq!(
        headers["authorization"],
        format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261127/{region}/bedrock/aws4_request, \
             SignedHeaders={names}, Signature={signature}"
        )
    );
    assert_eq!(headers["x-amz-date"], "20261127T123456Z");
    let sent = headers.get("x-amz-security-token").map(|value| value.to_str().unwrap());
    assert_eq!(sent, token);
    assert_eq!(headers.len(), if token.is_some() { 3 } else { 2 });
}

/// The path is encoded once in the URL and once more in the signature.
#[test]
fn signature_of_an_id_with_a_colon_is_that_of_botocore() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
    let signature = "4c474d1a173a2f0a77132f22184dceccdc964e3fa7e239edfadc88bf4c8e088d";
    check(None, "us-east-1", url, signature);
}

#[test]
fn signature_of_an_arn_is_that_of_botocore() {
    let url = "https://bedrock-runtime.eu-central-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-x/converse";
    let signature = "93273587e369f58724baf9495c9bd7f8b6e7cc9d774a1d3915ef457318f61cf5";
    check(None, "eu-central-1", url, signature);
}

#[test]
fn signature_with_temporary_credentials_is_that_of_botocore() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
    let token = "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVz==";
    let signature = "7996e71a59d8f2c8a0f4a688488a786d187e9b88339451128afaae454f68a776";
    check(Some(token), "us-east-1", url, signature);
    let url = "https://bedrock-runtime.us-gov-west-1.amazonaws.com/model/us-gov.amazon.nova-pro-v1%3A0/converse";
    let signature = "96ea25aba1dc52e179426320b993d4ff9c6999d5649d12d4791241d6c48ae04a";
    check(Some("token"), "us-gov-west-1", url, signature);
}

#[test]
fn signature_for_another_host_and_port_is_that_of_botocore() {
    let signature = "2abff39ace38aae3f21db01a63dce2450215f8490f2d5306268c039b31422667";
    check(None, "us-west-2", "http://127.0.0.1:8080/model/m/converse", signature);
    // The host's default port is not a part of the header.
    let signature = "b657c842282bee15e0f77e81c1ca584cfd5398b87aaeb3ba10a1adb3061e0fbf";
    check(None, "us-west-2", "https://proxy.example:443/model/m/converse", signature);
}

#[test]
fn secrets_are_not_shown() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse";
    let headers = headers(Some("session-hunter2"), "us-east-1", url).unwrap();
    assert_eq!(headers["x-amz-security-token"], "session-hunter2");
    let shown = format!("{headers:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("Signature"), "{shown}");
    let shown = format!("{:?}", Sigv4::new(credentials(Some("hunter2"))));
    assert_eq!(shown, "Sigv4(CachedCredentials { .. })");
}

#[test]
fn token_that_is_no_header_is_an_error_without_the_token() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse";
    let error = headers(Some("line\nhunter2"), "us-east-1", url).unwrap_err();
    assert_eq!(error.kind(), "Authentication");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn url_without_a_host_is_an_error() {
    let error = headers(None, "us-east-1", "/model/m/converse").unwrap_err();
    assert_eq!(error.to_string(), "invalid request: the URL /model/m/converse has no host");
}

#[tokio::test]
async fn headers_use_the_current_credentials() {
    let sigv4 = Sigv4::new(credentials(Some("token")));
    let uri = "https://h/model/m/converse".parse().unwrap();
    let headers = sigv4.headers("us-east-1", &uri, b"{}").await.unwrap();
    assert_eq!(headers["x-amz-security-token"], "token");
    assert_eq!(sigv4.token().await.unwrap(), "token");
    let permanent = Sigv4::new(credentials(None));
    assert_eq!(permanent.token().await.unwrap(), "");
    let headers = permanent.headers("us-east-1", &uri, b"{}").await.unwrap();
    assert!(!headers.contains_key("x-amz-security-token"));
}
