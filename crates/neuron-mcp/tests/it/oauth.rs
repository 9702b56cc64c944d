//! Tests of the OAuth authorization of a client, including each failure.

mod servers;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_mcp::{
    HttpConfig, LoopbackRedirect, McpCancelled, McpClient, McpError, McpVersion,
    MemoryOAuthStorage, OAuthApplicationType, OAuthConfig, OAuthError, OAuthRedirect, OAuthStorage,
};
use neuron_types::{ToolContext, ToolOutput};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use servers::{Behaviour, Servers};

/// A redirect that computes the callback URL from the authorization URL. Simulates the user at the authorization page.
struct Person<F>(F);

impl<F: Fn(&str) -> String + Send + Sync> OAuthRedirect for Person<F> {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    async fn authorize(&self, authorization_url: String) -> Result<String, McpError> {
        Ok((self.0)(&authorization_url))
    }
}

/// Returns a configuration with a simulated user who grants every authorization request.
fn agreeing(servers: &Servers) -> OAuthConfig {
    OAuthConfig::new(Person(servers.page()))
}

async fn connect(servers: &Servers, oauth: OAuthConfig) -> Result<McpClient, McpError> {
    let config = HttpConfig { url: servers.url(), ..HttpConfig::default() };
    let builder = McpClient::builder().versions([McpVersion::V2025_11_25]);
    builder.oauth(oauth).connect_http(config).await
}

/// Returns the OAuth error inside an error. Panics if the error is of another kind or shows a secret.
#[track_caller]
fn oauth_error(error: McpError) -> OAuthError {
    let shown = format!("{error} {error:?}");
    for secret in ["secret-code", "secret-token", "secret-renewal", "secret-of-client"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    match error {
        McpError::Other(error) => *error.downcast().unwrap(),
        other => panic!("not about authorization: {other:?}"),
    }
}

#[tokio::test]
async fn protected_server_is_authorized() {
    let servers = Servers::start(Behaviour::default()).await;
    let oauth = agreeing(&servers)
        .with_client_name("My agent")
        .with_application_type(OAuthApplicationType::Web);
    let client = connect(&servers, oauth).await.unwrap();

    assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
    assert_eq!(
        servers.log(),
        [
            "401 initialize",
            "register \"My agent\" \"web\"",
            "page client=registered scope=read",
            "token authorization_code client=registered secret=secret-of-client scope=read",
        ]
    );
    client.close().await;
}

#[tokio::test]
async fn server_without_challenge_header_is_authorized() {
    let servers = Servers::start(Behaviour { hides_challenge: true, ..Default::default() }).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();
    assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn insufficient_scope_is_requested_and_the_call_repeated() {
    let servers = Servers::start(Behaviour::default()).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();

    let output = client.call_tool_json("write", json!({})).await.unwrap();
    assert_eq!(output, ToolOutput::text("written"));
    // The new token keeps the scope `read`. The client uses its existing registration.
    assert_eq!(servers.count("register"), 1);
    assert_eq!(
        servers.log().last().unwrap(),
        "token authorization_code client=registered secret=secret-of-client scope=read write"
    );
}

#[tokio::test]
async fn scope_step_ups_are_limited() {
    let servers = Servers::start(Behaviour { wants_ever_more: true, ..Default::default() }).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();

    let error = client.call_tool_json("write", json!({})).await.unwrap_err();
    let error = oauth_error(error);
    assert!(
        matches!(&error, OAuthError::Scope { times: 2, scope } if scope == "write"),
        "{error:?}"
    );
    assert_eq!(servers.count("page"), 3);
    // Other requests still succeed.
    assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn refused_new_token_is_an_error() {
    let servers = Servers::start(Behaviour { refuses_tokens: true, ..Default::default() }).await;
    let error = oauth_error(connect(&servers, agreeing(&servers)).await.unwrap_err());
    assert!(matches!(error, OAuthError::TokenRefused), "{error:?}");
    assert_eq!(servers.count("page"), 1);
}

#[tokio::test]
async fn expiring_token_is_renewed_without_the_user() {
    // A token with this lifetime has always expired, so the client renews it before each request.
    let servers = Servers::start(Behaviour { expires_in: Some(0), ..Default::default() }).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();
    client.list_all_tools().await.unwrap();
    assert_eq!(servers.count("page"), 1);
    assert!(servers.count("token refresh_token client=registered secret=secret-of-client") >= 1);
}

#[tokio::test]
async fn revoked_token_is_renewed_or_authorized_again() {
    let servers = Servers::start(Behaviour::default()).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();

    servers.revoke_tokens();
    client.list_all_tools().await.unwrap();
    assert_eq!((servers.count("page"), servers.count("token refresh_token")), (1, 1));

    servers.behave(|behaviour| behaviour.refuses_renewal = true);
    servers.revoke_tokens();
    client.list_all_tools().await.unwrap();
    assert_eq!((servers.count("page"), servers.count("token refused")), (2, 1));
}

/// Starts a tool call for which the client must renew its token, and cancels the call during the renewal. At that time
/// the authorization server has renewed the token, but the client has not received its response.
async fn cancel_in_renewal(servers: &Servers, client: &McpClient) {
    let held = servers.hold_renewal();
    let token = CancellationToken::new();
    let ctx = ToolContext { cancellation_token: token.clone(), ..ToolContext::default() };
    let call = client.call_tool_in("write", json!({}), &ctx);
    let cancel = async {
        held.began.notified().await;
        token.cancel();
    };
    let both = async { tokio::join!(call, cancel) };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    let McpError::Other(error) = outcome.unwrap_err() else { panic!("not cancelled") };
    assert!(error.is::<McpCancelled>(), "{error:?}");
    // The runtime has a single thread. The yields let the client drop the cancelled call before the response arrives.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    held.release.notify_one();
}

#[tokio::test]
async fn renewal_completes_after_its_call_is_cancelled() {
    let servers = Servers::start(Behaviour::default()).await;
    let client = connect(&servers, agreeing(&servers).with_scopes(["write"])).await.unwrap();
    // First case: the server refuses the revoked token. The renewed token has expired at once.
    servers.behave(|behaviour| behaviour.expires_in = Some(0));
    servers.revoke_tokens();
    cancel_in_renewal(&servers, &client).await;
    client.call_tool_json("write", json!({})).await.unwrap();
    // Second case: the client renews the expiring token before it sends the call.
    cancel_in_renewal(&servers, &client).await;
    client.call_tool_json("write", json!({})).await.unwrap();
    assert_eq!((servers.count("page"), servers.count("token refused")), (1, 0));
}

#[tokio::test]
async fn stored_credentials_are_used_without_the_user() {
    let servers = Servers::start(Behaviour::default()).await;
    let storage = MemoryOAuthStorage::new();
    let oauth = agreeing(&servers).with_storage(storage.clone());
    connect(&servers, oauth.clone()).await.unwrap().close().await;

    let client = connect(&servers, oauth.clone()).await.unwrap();
    client.list_all_tools().await.unwrap();
    assert_eq!(servers.count("page"), 1);

    // The stored token can also be renewed. The renewal uses the client secret that the server issued.
    servers.revoke_tokens();
    client.list_all_tools().await.unwrap();
    assert_eq!(servers.count("token refresh_token client=registered secret=secret-of-client"), 1);
    client.close().await;

    // The stored data can be serialised, for example to a file.
    let stored = storage.load(&servers.url()).await.unwrap().unwrap();
    let kept = serde_json::to_string(&stored).unwrap();
    assert!(kept.contains("secret-token"));
    let elsewhere = MemoryOAuthStorage::new();
    elsewhere.save(&servers.url(), serde_json::from_str(&kept).unwrap()).await.unwrap();
    connect(&servers, agreeing(&servers).with_storage(elsewhere)).await.unwrap();
    assert_eq!(servers.count("page"), 1);
}

#[tokio::test]
async fn configured_client_is_not_registered() {
    let servers = Servers::start(Behaviour::default()).await;
    let oauth = agreeing(&servers)
        .with_client("mine")
        .with_client_secret("secret-of-client")
        .with_issuer(servers.address())
        .with_scopes(["write"]);
    connect(&servers, oauth).await.unwrap();
    assert_eq!(servers.count("register"), 0);
    assert_eq!(
        servers.log().last().unwrap(),
        "token authorization_code client=mine secret=secret-of-client scope=write"
    );
}

#[tokio::test]
async fn client_secret_is_sent_only_to_its_issuer() {
    let servers = Servers::start(Behaviour::default()).await;
    let oauth =
        OAuthConfig::client_credentials("mine", "secret-of-client", "https://issuer.example");
    let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
    assert!(matches!(error, OAuthError::Issuer(_)), "{error:?}");
    assert_eq!(servers.count("token"), 0);
}

#[tokio::test]
async fn client_credentials_need_no_user() {
    let servers = Servers::start(Behaviour { expires_in: Some(1), ..Default::default() }).await;
    let oauth = OAuthConfig::client_credentials("mine", "secret-of-client", servers.address())
        .with_scopes(["write"]);
    let client = connect(&servers, oauth).await.unwrap();
    client.call_tool_json("write", json!({})).await.unwrap();
    assert_eq!(
        servers.log()[1],
        "token client_credentials client=mine secret=secret-of-client scope=write"
    );
}

/// The application would open these URLs with a browser or another program.
#[tokio::test]
async fn unsafe_authorization_page_is_not_opened() {
    for page in [
        "javascript:alert(1)//",
        "file:///etc/passwd",
        "http://evil.example/authorize",
        "https://bank.example@evil.example/authorize",
    ] {
        let servers = Servers::start(Behaviour { page: Some(page), ..Default::default() }).await;
        let error = oauth_error(connect(&servers, agreeing(&servers)).await.unwrap_err());
        assert!(matches!(error, OAuthError::Discovery(_)), "{page}: {error:?}");
        assert_eq!(servers.count("page"), 0, "{page}");
    }
}

#[tokio::test]
async fn unannounced_pkce_is_refused_if_it_is_required() {
    let servers = Servers::start(Behaviour { hides_pkce: true, ..Default::default() }).await;
    let oauth = agreeing(&servers).with_required_pkce();
    let error = oauth_error(connect(&servers, oauth.clone()).await.unwrap_err());
    assert!(matches!(&error, OAuthError::Discovery(text) if text.contains("PKCE")), "{error:?}");
    assert_eq!((servers.count("register"), servers.count("page")), (0, 0));
    connect(&servers, agreeing(&servers)).await.unwrap();
    servers.behave(|behaviour| behaviour.hides_pkce = false);
    connect(&servers, oauth).await.unwrap();
}

#[tokio::test]
async fn token_of_another_type_is_refused() {
    let behaviour = Behaviour { token_type: Some("DPoP"), ..Default::default() };
    let servers = Servers::start(behaviour).await;
    let storage = MemoryOAuthStorage::new();
    let by_user = agreeing(&servers).with_storage(storage.clone());
    let by_itself = OAuthConfig::client_credentials("mine", "secret-of-client", servers.address());
    for oauth in [by_user, by_itself.with_storage(storage.clone())] {
        let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
        assert!(
            matches!(&error, OAuthError::Token(text) if text.to_lowercase().contains("dpop")),
            "{error:?}"
        );
    }
    assert!(storage.load(&servers.url()).await.unwrap().is_none());
}

/// `oauth_error` checks that the error shows no secret.
#[tokio::test]
async fn text_of_a_token_endpoint_is_redacted_and_shortened() {
    let servers = Servers::start(Behaviour::default()).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();
    servers.behave(|behaviour| behaviour.repeats_requests = true);
    let by_itself = OAuthConfig::client_credentials("mine", "secret-of-client", servers.address());
    for oauth in [agreeing(&servers), by_itself] {
        let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
        let text = error.to_string();
        assert!(text.contains("[redacted]") && text.len() < 1000, "{text}");
    }
    // A renewal is part of another request.
    servers.revoke_tokens();
    let text = client.list_all_tools().await.unwrap_err().to_string();
    assert!(text.contains("[redacted]") && text.len() < 1000, "{text}");
    assert!(!text.contains("secret-"), "{text}");
}

#[tokio::test]
async fn refusal_of_the_user_is_an_error() {
    let servers = Servers::start(Behaviour::default()).await;
    let page = servers.page();
    let oauth = OAuthConfig::new(Person(move |url: &str| {
        let agreed = page(url);
        let (_, state) = agreed.split_once("&state=").unwrap();
        format!(
            "http://127.0.0.1:9/callback?error=access_denied&error_description=no&state={state}"
        )
    }));
    let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
    assert!(
        matches!(&error, OAuthError::Refused { error, description: Some(no) } if error == "access_denied" && no == "no"),
        "{error:?}"
    );
}

#[tokio::test]
async fn callback_with_a_wrong_state_is_refused() {
    let servers = Servers::start(Behaviour::default()).await;
    for answer in [
        "http://127.0.0.1:9/callback?code=secret-code-9&state=another",
        "http://127.0.0.1:9/callback?code=secret-code-9",
        "secret-code-9",
    ] {
        let oauth = OAuthConfig::new(Person(move |_: &str| answer.to_owned()));
        let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
        assert!(matches!(error, OAuthError::Callback(_)), "{error:?}");
    }
    assert_eq!(servers.count("token"), 0);
}

#[tokio::test]
async fn callback_of_another_issuer_is_refused() {
    let servers = Servers::start(Behaviour::default()).await;
    for answer in ["code=secret-code-9", "error=access_denied"] {
        let oauth = OAuthConfig::new(Person(move |url: &str| {
            let (_, state) = url.split_once("state=").unwrap();
            let state = state.split('&').next().unwrap();
            format!("http://127.0.0.1:9/callback?{answer}&state={state}&iss=https://evil.example")
        }));
        let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
        assert!(matches!(error, OAuthError::Issuer(_)), "{error:?}");
    }
    assert_eq!(servers.count("token"), 0);
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    let issuer = Some("https://evil.example".to_owned());
    let servers = Servers::start(Behaviour { issuer, ..Default::default() }).await;
    let error = oauth_error(connect(&servers, agreeing(&servers)).await.unwrap_err());
    assert!(matches!(error, OAuthError::Issuer(_)), "{error:?}");
    assert_eq!(servers.count("register"), 0);
}

#[tokio::test]
async fn refused_registration_is_an_error() {
    let servers = Servers::start(Behaviour { refuses_clients: true, ..Default::default() }).await;
    let error = oauth_error(connect(&servers, agreeing(&servers)).await.unwrap_err());
    assert!(matches!(error, OAuthError::Registration(_)), "{error:?}");
    assert_eq!(servers.count("page"), 0);
}

#[tokio::test]
async fn failed_redirect_is_an_error() {
    struct Nobody;
    impl OAuthRedirect for Nobody {
        fn redirect_uri(&self) -> String {
            "http://127.0.0.1:9/callback".to_owned()
        }
        async fn authorize(&self, _: String) -> Result<String, McpError> {
            Err(McpError::Other("no browser".into()))
        }
    }
    let servers = Servers::start(Behaviour::default()).await;
    let error = oauth_error(connect(&servers, OAuthConfig::new(Nobody)).await.unwrap_err());
    assert!(matches!(error, OAuthError::Redirect(_)), "{error:?}");
}

/// A simulated user who grants all authorization requests except the second. The second request notifies the test and
/// stays without a response.
struct Hesitates<F> {
    agrees: F,
    times: AtomicUsize,
    asked: Arc<Notify>,
}

impl<F: Fn(&str) -> String + Send + Sync> OAuthRedirect for Hesitates<F> {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    async fn authorize(&self, url: String) -> Result<String, McpError> {
        if self.times.fetch_add(1, Ordering::SeqCst) != 1 {
            return Ok((self.agrees)(&url));
        }
        self.asked.notify_one();
        pending().await
    }
}

#[tokio::test]
async fn call_can_be_cancelled_while_the_user_decides() {
    let servers = Servers::start(Behaviour::default()).await;
    let asked = Arc::new(Notify::new());
    let person =
        Hesitates { agrees: servers.page(), times: AtomicUsize::new(0), asked: Arc::clone(&asked) };
    let client = connect(&servers, OAuthConfig::new(person)).await.unwrap();

    let token = CancellationToken::new();
    let ctx = ToolContext { cancellation_token: token.clone(), ..ToolContext::default() };
    let call = client.call_tool_in("write", json!({}), &ctx);
    let cancel = async {
        asked.notified().await;
        // Other requests succeed while the user has not answered yet.
        assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
        token.cancel();
    };
    // The timeout makes the test fail if the call ends before the user is asked.
    let both = async { tokio::join!(call, cancel) };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    let McpError::Other(error) = outcome.unwrap_err() else { panic!("not cancelled") };
    assert!(error.is::<McpCancelled>(), "{error:?}");
    // The next call asks the user again.
    assert_eq!(
        client.call_tool_json("write", json!({})).await.unwrap(),
        ToolOutput::text("written")
    );
}

#[tokio::test]
async fn authorization_times_out_without_an_answer() {
    struct Absent;
    impl OAuthRedirect for Absent {
        fn redirect_uri(&self) -> String {
            "http://127.0.0.1:9/callback".to_owned()
        }
        async fn authorize(&self, _: String) -> Result<String, McpError> {
            pending().await
        }
    }
    let servers = Servers::start(Behaviour::default()).await;
    let oauth = OAuthConfig::new(Absent).with_timeout(Duration::from_millis(1));
    let error = oauth_error(connect(&servers, oauth).await.unwrap_err());
    assert!(matches!(error, OAuthError::TimedOut(_)), "{error:?}");
}

#[tokio::test]
async fn concurrent_calls_ask_the_user_once() {
    let servers = Servers::start(Behaviour::default()).await;
    let client = connect(&servers, agreeing(&servers)).await.unwrap();
    let calls = (0..5).map(|_| client.call_tool_json("write", json!({})));
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.unwrap(), ToolOutput::text("written"));
    }
    assert_eq!(servers.count("page"), 2);
}

#[tokio::test]
async fn loopback_redirect_receives_the_callback() {
    let servers = Servers::start(Behaviour::default()).await;
    let page = servers.page();
    let (opened, mut urls) = tokio::sync::mpsc::unbounded_channel();
    let redirect =
        LoopbackRedirect::bind(0, move |url| opened.send(page(url)).unwrap()).await.unwrap();
    let port = redirect.redirect_uri();
    let browser = async {
        let back = urls.recv().await.unwrap();
        // A browser may open a connection in advance and may request `/favicon.ico`.
        let address = port.trim_start_matches("http://").trim_end_matches("/callback");
        let _idle = TcpStream::connect(address).await.unwrap();
        assert!(get(address, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
        assert!(get(address, "/callback?code=1&state=another").await.starts_with("HTTP/1.1 404"));
        let path = back.strip_prefix(&format!("http://{address}")).unwrap();
        let shown = get(address, path).await;
        assert!(shown.contains("You can close this window"), "{shown}");
    };
    let (client, ()) = tokio::join!(connect(&servers, OAuthConfig::new(redirect)), browser);
    assert_eq!(client.unwrap().list_all_tools().await.unwrap().len(), 1);
}

/// Sends a GET request on a new connection, and returns the whole response.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn debug_output_contains_no_secret() {
    let servers = Servers::start(Behaviour::default()).await;
    let storage = MemoryOAuthStorage::new();
    let oauth = agreeing(&servers)
        .with_client("mine")
        .with_client_secret("secret-of-client")
        .with_storage(storage.clone());
    let client = connect(&servers, oauth.clone()).await.unwrap();
    let stored = storage.load(&servers.url()).await.unwrap().unwrap();
    let shown = format!("{oauth:?} {client:?} {storage:?} {stored:?}");
    assert!(!shown.contains("secret-"), "{shown}");
    assert!(shown.contains("mine"), "{shown}");
}
