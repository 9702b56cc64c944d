//! A redirect handler for the conformance suite, whose authorization page grants every request.

use neuron_mcp::{McpError, OAuthRedirect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Requests the authorization page without a browser. The page of the MCP conformance suite redirects immediately to
/// the callback URL.
pub(super) struct AuthorizationPage;

impl OAuthRedirect for AuthorizationPage {
    /// Returns a URL on which nothing listens. The callback URL is taken from the redirect response and never
    /// requested.
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    async fn authorize(&self, authorization_url: String) -> Result<String, McpError> {
        location(&authorization_url).await.map_err(|error| McpError::Other(error.into()))
    }
}

/// Requests a page over plain HTTP, and returns the whole response.
pub(super) async fn get(url: &str) -> Result<String, String> {
    let uri: http::Uri = url.parse().map_err(|error| format!("{error}"))?;
    let authority = uri.authority().ok_or("no authority")?.as_str();
    let path = uri.path_and_query().ok_or("no path")?.as_str();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let exchange = async {
        let mut stream = TcpStream::connect(authority).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    exchange.await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Requests a page over plain HTTP, and returns its `Location` header.
async fn location(url: &str) -> Result<String, String> {
    let answer = get(url).await?;
    let mut headers = answer.lines().filter_map(|line| line.split_once(": "));
    headers
        .find(|(name, _)| name.eq_ignore_ascii_case("location"))
        .map(|(_, location)| location.to_owned())
        .ok_or_else(|| format!("the page sends nobody anywhere: {answer}"))
}
