//! Tests with `oidc-provider`, an authorization server that is certified for OpenID Connect.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use neuron_mcp::{
    HttpConfig, HttpIdentity, HttpRefusal, McpClient, McpError, OAuthConfig, OAuthRedirect,
    TokenClaims,
};
use neuron_testkit::mcp::Suite;
use serde_json::Value;

use super::Protected;
use super::own_client::whoami;

/// A running authorization server. It is killed on drop.
struct OidcProvider {
    url: String,
    process: Child,
}

impl OidcProvider {
    fn or_skip() -> Option<Self> {
        let suite = Suite::or_skip()?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/node/issuer.mjs");
        let mut command = Command::new(suite.node());
        command.arg(script).arg(suite.package("oidc-provider"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Some(Self { url: url.trim().to_owned(), process })
    }
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn post(url: &str, body: String) -> String {
    // `reqwest` asks for the cryptography of TLS, which these URLs do not use. Fails if the process has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = reqwest::Client::new().post(url).body(body);
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    request.send().await.unwrap().text().await.unwrap()
}

/// Asks the authorization server about a token (RFC 7662).
async fn introspect(url: &str, token: &str) -> Result<TokenClaims, HttpRefusal> {
    let asked = format!("token={token}&client_id=resource-server&client_secret=secret");
    let answer = post(&format!("{url}/token/introspection"), asked).await;
    let claims: Value = serde_json::from_str(&answer).unwrap();
    if claims["active"] != true {
        return Err(HttpRefusal::unauthorized());
    }
    let text = |name: &str| claims[name].as_str().unwrap().to_owned();
    Ok(TokenClaims {
        identity: HttpIdentity::new(text("sub")),
        audience: vec![text("aud")],
        expires_at: claims["exp"].as_u64().unwrap(),
        scopes: text("scope").split(' ').map(str::to_owned).collect(),
    })
}

/// A user who logs in at the pages of the authorization server and consents.
struct User {
    agree: String,
}

impl OAuthRedirect for User {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    async fn authorize(&self, authorization_url: String) -> Result<String, McpError> {
        Ok(post(&self.agree, authorization_url).await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_and_our_server_work_with_oidc_provider() {
    let Some(issuer) = OidcProvider::or_skip() else { return };
    introspect(&issuer.url, "invented").await.unwrap_err();
    let url = issuer.url.clone();
    let verifier = move |token: String| {
        let url = url.clone();
        async move { introspect(&url, &token).await }
    };
    let server = Protected::with(&issuer.url, verifier).await;
    let config = HttpConfig { url: server.url.clone(), ..HttpConfig::default() };
    let oauth = OAuthConfig::new(User { agree: format!("{}/agree", issuer.url) });
    let client = McpClient::builder().oauth(oauth).connect_http(config).await.unwrap();
    assert_eq!(whoami(&client).await.unwrap(), "alice: tools");

    // The access token expires after two seconds, and the client renews it.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(whoami(&client).await.unwrap(), "alice: tools");
    client.close().await;
}
