//! Tests of an MCP server that is an OAuth 2.1 protected resource behind a proxy. The clients are the TypeScript SDK
//! and the client of this crate. Both find the authorization server in the resource metadata, and renew their tokens.

mod issuer;
#[cfg(feature = "oauth")]
mod oidc_provider;

use std::path::Path;
use std::process::Command;

use neuron_mcp::{
    HttpIdentity, HttpServerConfig, McpPeer, McpServer, ProtectedResource, TokenClaims,
    TokenVerifier,
};
use neuron_testkit::mcp::Suite;
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use issuer::Issuer;

/// Returns the subject and the scopes of the caller.
#[neuron_tool]
async fn whoami(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    assert_eq!(peer.header("authorization"), None);
    let subject = peer.extension::<HttpIdentity>().map(|it| it.subject().to_owned()).unwrap();
    let claims = peer.extension::<TokenClaims>().unwrap();
    Ok(format!("{subject}: {}", claims.scopes.join(" ")))
}

/// A running MCP server that requires access tokens, behind a TCP proxy. Stops when dropped.
struct Protected {
    /// URL of the MCP endpoint at the proxy.
    url: String,
    _tasks: JoinSet<()>,
}

impl Protected {
    async fn start(issuer: &Issuer) -> Self {
        Self::with(issuer.address(), issuer.verifier()).await
    }

    /// Starts a server whose tokens come from the authorization server at the URL `issuer`.
    async fn with(issuer: &str, verifier: impl TokenVerifier + 'static) -> Self {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", proxy.local_addr().unwrap());
        let resource = ProtectedResource::new(&url, [issuer])
            .name("Peer")
            .required_scopes(["tools"])
            .scopes(["profile"]);
        let config = HttpServerConfig::default().authorize(resource, verifier);
        let mut tools = ToolRegistry::new();
        tools.register(WhoamiTool);
        let listening = McpServer::new(tools).bind_http(config).await.unwrap();
        let addr = listening.local_addr();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { listening.serve().await.unwrap() });
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = proxy.accept().await {
                connections.spawn(async move {
                    let mut server = TcpStream::connect(addr).await.unwrap();
                    // Ignore errors, because a client may close its connection at any time.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { url, _tasks: tasks }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_client_authorizes_and_renews() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let issuer = Issuer::start().await;
    let server = Protected::start(&issuer).await;
    let (url, address) = (server.url.clone(), issuer.address().to_owned());
    let run = tokio::task::spawn_blocking(move || told(&suite, &url, &address));
    assert_eq!(
        run.await.unwrap(),
        json!({
            "connect": "UnauthorizedError",
            "asked": {"resource": server.url, "scope": "tools", "method": "S256"},
            "first": "alice: tools",
            "expired": "alice: tools",
            "narrowed": "alice: tools",
            "audience": 401,
            "again": "alice: tools",
        })
    );
    let resource = &server.url;
    assert_eq!(
        issuer.log(),
        [
            "register".to_owned(),
            format!("page resource={resource} scope=tools"),
            format!("authorization_code resource={resource}"),
            format!("refresh_token resource={resource}"),
            format!("refresh_token resource={resource}"),
            format!("refresh_token resource={resource}"),
            format!("refresh_token resource={resource}"),
        ]
    );
}

/// Runs the client program of the TypeScript SDK against the MCP server at `url`. Returns the results that the program
/// prints, as JSON. `issuer` is the URL of the authorization server.
#[track_caller]
fn told(suite: &Suite, url: &str, issuer: &str) -> Value {
    let program = suite.server_everything();
    // The server `everything` depends on the SDK, so the SDK is installed next to this server.
    let server = Path::new(program.args.last().unwrap());
    let sdk = server.ancestors().nth(3).unwrap().join("sdk");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/authorization/client.mjs");
    let output =
        Command::new(program.program).arg(script).arg(sdk).args([url, issuer]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[cfg(feature = "oauth")]
mod own_client {
    use neuron_mcp::{HttpConfig, McpClient, McpError, OAuthConfig, OAuthError, OAuthRedirect};

    use super::*;

    /// A redirect that computes the callback URL from the authorization URL. Simulates the user at the authorization
    /// page.
    struct Person<F>(F);

    impl<F: Fn(&str) -> String + Send + Sync> OAuthRedirect for Person<F> {
        fn redirect_uri(&self) -> String {
            "http://127.0.0.1:9/callback".to_owned()
        }

        async fn authorize(&self, authorization_url: String) -> Result<String, McpError> {
            Ok((self.0)(&authorization_url))
        }
    }

    async fn connect(issuer: &Issuer, server: &Protected) -> Result<McpClient, McpError> {
        let config = HttpConfig { url: server.url.clone(), ..HttpConfig::default() };
        let oauth = OAuthConfig::new(Person(issuer.page()));
        McpClient::builder().oauth(oauth).connect_http(config).await
    }

    pub(super) async fn whoami(client: &McpClient) -> Result<String, McpError> {
        let output = client.call_tool_json("whoami", json!({})).await?;
        Ok(output.content[0].to_string())
    }

    #[tokio::test]
    async fn our_client_authorizes_and_renews() {
        let issuer = Issuer::start().await;
        let server = Protected::start(&issuer).await;
        let client = connect(&issuer, &server).await.unwrap();
        assert_eq!(whoami(&client).await.unwrap(), "alice: tools");
        let resource = &server.url;
        let mut expected = vec![
            "register".to_owned(),
            format!("page resource={resource} scope=tools"),
            format!("authorization_code resource={resource}"),
        ];
        assert_eq!(issuer.log(), expected);

        issuer.expire();
        assert_eq!(whoami(&client).await.unwrap(), "alice: tools");
        expected.push(format!("refresh_token resource={resource}"));
        assert_eq!(issuer.log(), expected);
        client.close().await;
    }

    #[tokio::test]
    async fn missing_scope_is_requested() {
        let issuer = Issuer::start().await;
        let server = Protected::start(&issuer).await;
        let client = connect(&issuer, &server).await.unwrap();
        issuer.narrow();
        assert_eq!(whoami(&client).await.unwrap(), "alice: tools");
        assert_eq!(issuer.log().iter().filter(|line| line.starts_with("page")).count(), 2);
        client.close().await;
    }

    #[tokio::test]
    async fn token_for_another_resource_is_refused() {
        let issuer = Issuer::start().await;
        let server = Protected::start(&issuer).await;
        issuer.set_audience("https://other.example/mcp");
        let McpError::Other(error) = connect(&issuer, &server).await.unwrap_err() else { panic!() };
        assert!(matches!(error.downcast_ref(), Some(OAuthError::TokenRefused)), "{error:?}");
    }
}
