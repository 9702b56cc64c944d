//! The redirect from the authorization page to a program on the user's own machine.

use std::convert::Infallible;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use neuron_types::McpError;
use tokio::net::{TcpListener, TcpStream};

use super::callback::state_of;
use super::redirect::OAuthRedirect;

/// Path of the callback URL, to which the authorization page redirects the user.
const PATH: &str = "/callback";

/// A redirect to a port of this machine (RFC 8252, section 7.3), for programs on the user's machine.
///
/// The application passes a function that opens the authorization page. The function receives the URL of the page. It
/// may start a browser or print the URL.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), neuron_mcp::McpError> {
/// use neuron_mcp::{LoopbackRedirect, OAuthConfig};
///
/// let redirect = LoopbackRedirect::bind(0, |url| println!("Please open {url}")).await?;
/// let config = OAuthConfig::new(redirect).with_client_name("My agent");
/// # Ok(())
/// # }
/// ```
pub struct LoopbackRedirect {
    uri: String,
    /// Locked during an authorization, because two concurrent authorizations would accept each other's connections.
    listener: tokio::sync::Mutex<TcpListener>,
    open: Box<dyn Fn(&str) + Send + Sync>,
}

impl LoopbackRedirect {
    /// Listens on `port` of 127.0.0.1. Port 0 selects a free port.
    ///
    /// `open` is called with the URL of each authorization page. It must not block.
    ///
    /// A client that registers itself, or has a metadata document, can use any port. A client that was registered
    /// manually may need the port in its registered redirect URI.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with the [`std::io::Error`], for example if the port is in use.
    pub async fn bind(
        port: u16,
        open: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, McpError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(other)?;
        let address = listener.local_addr().map_err(other)?;
        Ok(Self {
            uri: format!("http://{address}{PATH}"),
            listener: tokio::sync::Mutex::new(listener),
            open: Box::new(open),
        })
    }
}

impl fmt::Debug for LoopbackRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackRedirect").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl OAuthRedirect for LoopbackRedirect {
    fn redirect_uri(&self) -> String {
        self.uri.clone()
    }

    async fn authorize(&self, authorization_url: String) -> Result<String, McpError> {
        let listener = self.listener.lock().await;
        let visit = Visit {
            origin: self.uri.trim_end_matches(PATH),
            state: state_of(&authorization_url),
            answer: Mutex::new(None),
        };
        (self.open)(&authorization_url);
        // Browsers may open connections before they need them, so several connections are served concurrently.
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.map_err(other)?;
                    connections.push(visit.serve(stream));
                }
                Some(()) = connections.next() => {
                    if let Some(answer) = visit.take_answer() {
                        return Ok(answer);
                    }
                }
            }
        }
    }
}

/// A running authorization, which serves the browser's requests.
struct Visit<'a> {
    /// Scheme, host and port of the callback URL.
    origin: &'a str,
    /// The `state` parameter of the authorization URL. The callback request must have an equal `state`. If it is
    /// `None`, no request is accepted as the callback.
    state: Option<String>,
    /// The callback URL, once the browser has requested it.
    answer: Mutex<Option<String>>,
}

impl Visit<'_> {
    /// Responds to one HTTP request of the browser on this connection, and then closes the connection.
    async fn serve(&self, stream: TcpStream) {
        let service = service_fn(|request| async move { Ok::<_, Infallible>(self.page(&request)) });
        // Without keep-alive, the connection ends once the page is sent. The browser repeats a request that failed.
        let _ = http1::Builder::new()
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Returns the page for a request, and stores the URL if the request is the callback.
    fn page(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let url = format!("{}{}", self.origin, request.uri());
        if request.uri().path() != PATH || self.state.is_none() || state_of(&url) != self.state {
            return page(StatusCode::NOT_FOUND, "This is not a page.");
        }
        *self.answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(url);
        page(StatusCode::OK, "You can close this window and go back to the program.")
    }

    fn take_answer(&self) -> Option<String> {
        self.answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn other(error: std::io::Error) -> McpError {
    McpError::Other(Box::new(error))
}
