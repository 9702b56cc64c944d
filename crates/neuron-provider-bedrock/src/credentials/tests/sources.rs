//! Tests of the default sources. Each test runs again in a child process, which has its own environment.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use neuron_conformance::child_process::run_with_environment;
use tempfile::TempDir;

use super::*;

/// Runs a test in a child process that has no source of credentials but these variables and the files in `home`.
/// Returns `true` in the child process.
fn is_child(test: &str, home: &Path, variables: &[(&str, &str)]) -> bool {
    let file = |name: &str| home.join(name).display().to_string();
    let mut environment = HashMap::from([
        ("HOME", file("")),
        ("AWS_CONFIG_FILE", file("config")),
        ("AWS_SHARED_CREDENTIALS_FILE", file("credentials")),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", String::new()),
        ("AWS_SECRET_ACCESS_KEY", String::new()),
        ("AWS_SESSION_TOKEN", String::new()),
        ("AWS_PROFILE", "default".to_owned()),
        ("NO_PROXY", "127.0.0.1".to_owned()),
    ]);
    environment.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
    run_with_environment(test, environment)
}

fn sources() -> CachedCredentials {
    CachedCredentials::new(DefaultSources::new("eu-central-1".to_owned()))
}

async fn load() -> Result<(String, Option<String>), ProviderError> {
    let credentials = sources().get().await?;
    assert_eq!(credentials.secret_access_key(), "secret");
    let token = credentials.session_token().map(str::to_owned);
    Ok((credentials.access_key_id().to_owned(), token))
}

/// Answers every request by its method and path, in threads of their own. Other paths get the status 404. Returns the
/// URL.
fn serve(answers: &'static [(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap(), answers));
        }
    });
    url
}

fn answer(stream: TcpStream, answers: &[(&str, &str)]) {
    let mut reader = BufReader::new(&stream);
    let (mut target, mut length) = (String::new(), 0);
    reader.read_line(&mut target).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let target = target.trim_end().trim_end_matches(" HTTP/1.1");
    let body = answers.iter().find(|(expected, _)| *expected == target).map(|(_, body)| *body);
    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let (body, length) = (body.unwrap_or_default(), body.unwrap_or_default().len());
    // The lifetime of a token of the instance metadata.
    let head = format!(
        "HTTP/1.1 {status}\r\nx-aws-ec2-metadata-token-ttl-seconds: 21600\r\nconnection: close\r\ncontent-length: {length}"
    );
    (&stream).write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
}

/// The response of the metadata services of containers and instances.
const METADATA: &str = r#"{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "role", "SecretAccessKey": "secret",
    "Token": "token", "Expiration": "2999-01-01T00:00:00Z", "LastUpdated": "2026-11-27T00:00:00Z"}"#;

fn role() -> (String, Option<String>) {
    ("role".to_owned(), Some("token".to_owned()))
}

#[tokio::test]
async fn variables_have_credentials() {
    let test = concat!(module_path!(), "::variables_have_credentials");
    let home = TempDir::new().unwrap();
    let variables = [
        ("AWS_ACCESS_KEY_ID", "role"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "token"),
    ];
    if is_child(test, home.path(), &variables) {
        assert_eq!(load().await.unwrap(), role());
    }
}

#[tokio::test]
async fn profile_has_credentials_and_is_read_again() {
    let test = concat!(module_path!(), "::profile_has_credentials_and_is_read_again");
    let home = TempDir::new().unwrap();
    if !is_child(test, home.path(), &[("AWS_PROFILE", "work")]) {
        return;
    }
    let file = std::env::var("AWS_SHARED_CREDENTIALS_FILE").unwrap();
    for id in ["first", "second"] {
        let profile = format!("[work]\naws_access_key_id = {id}\naws_secret_access_key = secret\n");
        fs::write(&file, format!("[default]\naws_access_key_id = other\n{profile}")).unwrap();
        assert_eq!(load().await.unwrap(), (id.to_owned(), None));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn program_of_a_profile_prints_credentials() {
    let test = concat!(module_path!(), "::program_of_a_profile_prints_credentials");
    let home = TempDir::new().unwrap();
    let json = home.path().join("json");
    let printed = r#"{"Version": 1, "AccessKeyId": "role", "SecretAccessKey": "secret", "SessionToken": "token"}"#;
    fs::write(&json, printed).unwrap();
    let config = format!("[default]\ncredential_process = cat {}\n", json.display());
    fs::write(home.path().join("config"), config).unwrap();
    if is_child(test, home.path(), &[]) {
        assert_eq!(load().await.unwrap(), role());
    }
}

#[tokio::test]
async fn container_has_credentials() {
    let test = concat!(module_path!(), "::container_has_credentials");
    let home = TempDir::new().unwrap();
    let url = serve(&[("GET /credentials", METADATA)]) + "/credentials";
    if is_child(test, home.path(), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]) {
        assert_eq!(load().await.unwrap(), role());
    }
}

#[tokio::test]
async fn instance_has_credentials() {
    let test = concat!(module_path!(), "::instance_has_credentials");
    let home = TempDir::new().unwrap();
    let url = serve(&[
        ("PUT /latest/api/token", "metadata-token"),
        ("GET /latest/meta-data/iam/security-credentials/", "my-role"),
        ("GET /latest/meta-data/iam/security-credentials/my-role", METADATA),
    ]);
    let variables = [
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str()),
    ];
    if is_child(test, home.path(), &variables) {
        assert_eq!(load().await.unwrap(), role());
    }
}

#[tokio::test]
async fn token_file_is_exchanged_for_credentials() {
    let test = concat!(module_path!(), "::token_file_is_exchanged_for_credentials");
    let home = TempDir::new().unwrap();
    let token = home.path().join("token");
    fs::write(&token, "identity").unwrap();
    let url = serve(&[(
        "POST /",
        r#"<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
            <AssumeRoleWithWebIdentityResult><Credentials>
                <AccessKeyId>role</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
                <SessionToken>token</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>
            </Credentials></AssumeRoleWithWebIdentityResult>
        </AssumeRoleWithWebIdentityResponse>"#,
    )]);
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r"),
        ("AWS_ENDPOINT_URL_STS", &url),
    ];
    if is_child(test, home.path(), &variables) {
        assert_eq!(load().await.unwrap(), role());
    }
}

#[tokio::test]
async fn no_source_is_an_error() {
    let test = concat!(module_path!(), "::no_source_is_an_error");
    let home = TempDir::new().unwrap();
    if is_child(test, home.path(), &[]) {
        let error = load().await.unwrap_err();
        assert_eq!(error.kind(), "Authentication");
        assert!(error.to_string().contains("there are no AWS credentials"), "{error}");
    }
}

#[tokio::test]
async fn wrong_profile_is_an_error_with_its_cause() {
    let test = concat!(module_path!(), "::wrong_profile_is_an_error_with_its_cause");
    let home = TempDir::new().unwrap();
    let config =
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = missing\n";
    fs::write(home.path().join("config"), config).unwrap();
    if is_child(test, home.path(), &[]) {
        let error = load().await.unwrap_err();
        assert_eq!(error.kind(), "Authentication");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}

#[tokio::test]
async fn unreachable_source_is_a_network_error() {
    let test = concat!(module_path!(), "::unreachable_source_is_a_network_error");
    let home = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/credentials", listener.local_addr().unwrap());
    drop(listener);
    if is_child(test, home.path(), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]) {
        let error = load().await.unwrap_err();
        assert_eq!(error.kind(), "Network");
        assert!(!error.was_sent());
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}
