//! [`McpHttpService`], the HTTP service of a server.
//!
//! The service of the SDK (crate `rmcp`) implements the protocol. This module adds the check of host names and origins,
//! authentication, timeouts, session ownership and shutdown.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;
use neuron_types::McpError;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio_util::task::TaskTracker;

use super::authenticate::{Authenticate, HttpRequestHead};
use super::body::{self, McpHttpBody, Unread};
use super::config::HttpServerConfig;
use super::cors;
use super::names::{AllowedNames, NameRefusal};
use super::peers::{Carrying, Connection, network};
use super::protected_resource::{ProtectedResource, TokenClaims};
use super::sessions::{Client, SessionLimits, SessionOwnerMismatch, SessionUse, Sessions};
use super::shutdown::Shutdown;
use crate::route::SESSION_ID;
use crate::server::mcp_server::McpServer;
use crate::server::traced::{RequestParent, Traced};

/// The HTTP header that contains the JSON-RPC method of a request. Clients send this header since protocol version
/// 2026-07-28.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// Start of the methods of requests about tasks.
const TASK_METHODS: &str = "tasks/";

/// An MCP server as a `tower` service, for another HTTP server such as hyper's or axum's. Created by
/// [`McpServer::http_service`](crate::McpServer::http_service).
///
/// The service handles every path, accepts any body type, and never returns an error. Clones share one server. When the
/// last clone is dropped, all sessions and tasks end.
#[derive(Clone)]
pub struct McpHttpService {
    /// State that all clones share.
    shared: Arc<Shared>,
    /// The service of the SDK (crate `rmcp`), which implements the protocol.
    sdk: StreamableHttpService<Traced, Sessions>,
}

/// State that all clones of a service share.
struct Shared {
    /// Allowed host names and origins.
    names: AllowedNames,
    /// The user's authentication function. `None` accepts every request.
    authenticate: Option<Authenticate>,
    /// Set if requests require an OAuth access token. Contains the metadata for clients.
    resource: Option<Arc<ProtectedResource>>,
    /// Maximum length of a request body, in bytes.
    max_body_bytes: usize,
    /// Timeout for reading a request body.
    read_timeout: Duration,
    /// The HTTP sessions. Clients have no sessions since protocol version 2026-07-28.
    sessions: Arc<Sessions>,
    /// Tokens that end calls and streams in steps when the server shuts down.
    shutdown: Shutdown,
    /// The calls that are or may become tasks.
    workers: TaskTracker,
}

/// Ends the sessions and the tasks of a server that is dropped without a shutdown.
impl Drop for Shared {
    fn drop(&mut self) {
        self.shutdown.end();
    }
}

/// The response to a request that is refused. Boxed, because the type is large.
type Refused = Box<Response<McpHttpBody>>;

impl McpHttpService {
    /// Creates the service. `bound` is the bind address of a standalone server, and `None` in another HTTP server.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if any of these is invalid:
    ///
    /// - A host name or an origin.
    /// - The protected resource.
    /// - The key of [`McpServer::with_state_key`].
    pub(super) fn new(
        server: &McpServer,
        config: &HttpServerConfig,
        bound: Option<IpAddr>,
    ) -> Result<Self, McpError> {
        let names =
            AllowedNames::new(config.allowed_hosts.as_deref(), &config.allowed_origins, bound)
                .map_err(McpError::Initialization)?;
        if let Some(resource) = &config.resource {
            resource.validate().map_err(McpError::Initialization)?;
        }
        let shutdown = Shutdown::new(server.shutdown.child_token(), config.shutdown_grace);
        let sessions = Arc::new(Sessions::new(SessionLimits {
            all: config.max_sessions,
            of_a_client: config.max_sessions_per_client,
            idle: config.session_idle_timeout,
        }));
        // The SDK's own checks are off. Hosts and origins are checked before authentication, and the body is already
        // read with a limit when the SDK gets the request.
        let sdk_config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(shutdown.streams().clone());
        // Calls get their own shutdown token, because they may continue for the grace period.
        let server = server.clone().with_shutdown(shutdown.calls().clone());
        let serving = server.serving(Some(shutdown.clone()))?;
        let workers = serving.workers.clone();
        let sdk = StreamableHttpService::new(
            move || Ok(Traced::connect(&serving, None)),
            sessions.clone(),
            sdk_config,
        );
        let shared = Shared {
            names,
            authenticate: config.authenticate.clone(),
            resource: config.resource.clone(),
            max_body_bytes: config.max_body_bytes,
            read_timeout: config.read_timeout,
            sessions,
            shutdown,
            workers,
        };
        Ok(Self { shared: Arc::new(shared), sdk })
    }

    pub(super) fn shutdown(&self) -> &Shutdown {
        &self.shared.shutdown
    }

    /// Waits until no call runs that is or may become a task.
    pub(super) async fn tasks_ended(&self) {
        self.shared.workers.wait().await;
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    /// Returns `true` if the server returns the metadata of its protected resource at this path.
    pub(super) fn has_metadata_at(&self, path: &str) -> bool {
        self.shared.resource.as_ref().is_some_and(|resource| resource.has_metadata_at(path))
    }

    /// Handles an HTTP request. Every request gets a response, also if it is refused.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<McpHttpBody>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if let Err(refused) = self.let_in(&parts) {
            return *refused;
        }
        let origin = self.shared.names.origin(&parts.headers).cloned();
        let mut response = if cors::is_preflight(&parts.method, &parts.headers) {
            let mut response = text(StatusCode::NO_CONTENT, "");
            response.headers_mut().extend(cors::preflight(&parts.headers));
            response
        } else if let Some(metadata) = self.metadata(&parts) {
            metadata
        } else {
            self.serve(parts, body).await.unwrap_or_else(|refused| *refused)
        };
        if let Some(origin) = origin {
            cors::allow(origin, response.headers_mut());
        }
        response
    }

    /// Returns `true` if shutdown was requested. New work is then refused, but running calls can still receive
    /// responses of their clients.
    fn shuts_down(&self) -> bool {
        self.shared.shutdown.asked().is_cancelled()
    }

    /// Checks a request before authentication. Refuses the request if its host or origin is not allowed.
    ///
    /// During a shutdown, also refuses every request that cannot belong to a running call (see [`may_be_for_a_call`]).
    fn let_in(&self, parts: &Parts) -> Result<(), Refused> {
        if self.shuts_down() && !may_be_for_a_call(parts) {
            return Err(closing());
        }
        self.shared.names.check(&parts.uri, &parts.headers).map_err(|refusal| {
            tracing::warn!(
                ?refusal,
                host = ?parts.headers.get(http::header::HOST),
                origin = ?parts.headers.get(http::header::ORIGIN),
                "refused an HTTP request"
            );
            let (status, words) = match refusal {
                NameRefusal::Malformed => {
                    (StatusCode::BAD_REQUEST, "exactly one valid Host header is required")
                }
                NameRefusal::Host => (StatusCode::FORBIDDEN, "Host header is not allowed"),
                NameRefusal::Origin => (StatusCode::FORBIDDEN, "Origin header is not allowed"),
            };
            refused(status, words)
        })
    }

    /// Returns the response to a request for the metadata of the protected resource, without authentication. Returns
    /// `None` if the path is not a path of the metadata.
    fn metadata(&self, parts: &Parts) -> Option<Response<McpHttpBody>> {
        let resource = self.shared.resource.as_ref()?;
        if !resource.has_metadata_at(parts.uri.path()) {
            return None;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let response = refused(StatusCode::METHOD_NOT_ALLOWED, "use GET to read the metadata");
            return Some(*with(response, ALLOW, "GET, HEAD, OPTIONS"));
        }
        let response = Box::new(text(StatusCode::OK, resource.metadata()));
        Some(*with(response, CONTENT_TYPE, "application/json"))
    }

    /// Authenticates a request whose host and origin are allowed, reads its body, and passes it to the SDK.
    async fn serve<B>(&self, mut parts: Parts, body: B) -> Result<Response<McpHttpBody>, Refused>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let subject = self.authenticate(&mut parts).await?;
        let body = if parts.method == Method::POST { self.read(body).await? } else { Bytes::new() };
        // Keeps the connection from being closed in favour of a newer connection until the response is complete.
        let carrying = parts.extensions.remove::<Arc<Connection>>().map(|it| it.carry());
        let session = self.session(&parts.headers, subject.as_deref())?;
        let names_session = parts.headers.contains_key(SESSION_ID);
        // The SDK would accept a `DELETE` for an unknown session (202).
        if parts.method == Method::DELETE && names_session && session.is_none() {
            return Err(no_session());
        }
        // During the shutdown only responses and notifications for running calls are accepted, and requests about tasks.
        let is_for_a_call = session.is_some() && !asks(&body);
        if self.shuts_down() && !is_for_a_call && !is_about_a_task(&body) {
            return Err(closing());
        }
        let client = client(&parts, subject.as_deref());
        // The reservation is dropped at the end of this method, when the session exists or the request has failed.
        let room = if session.is_none() && begins_session(&parts, &body) {
            let room = self.shared.sessions.make_room(&client).await;
            Some(room.ok_or_else(no_room)?)
        } else {
            None
        };
        // The SDK may handle the request in another task, where this span is not the current span.
        parts.extensions.insert(RequestParent::current());
        let is_json = has_json_body(&parts);
        let deletes = parts.method == Method::DELETE;
        let claims = parts.extensions.get::<TokenClaims>();
        let listens =
            only_listens(&parts).then(|| claims.map_or(Duration::MAX, TokenClaims::lifetime));

        let mut response = self.ask_sdk(Request::from_parts(parts, Full::new(body))).await;

        // The SDK sends 202. Python's client reports every status except 200 and 204 as a failure.
        if deletes && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if room.is_some()
            && let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok())
        {
            self.shared.sessions.begun(id, subject, client);
        }
        if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // The SDK's response to valid JSON that is not a message.
            return Err(no_message());
        }
        Ok(self.with_end(response, listens, (session, carrying)))
    }

    /// Authenticates a request with the user's function, and stores the identity in the request's extensions. Returns
    /// the subject of the identity. Returns `None` if the server does not authenticate.
    async fn authenticate(&self, parts: &mut Parts) -> Result<Option<Arc<str>>, Refused> {
        let Some(authenticate) = &self.shared.authenticate else {
            return Ok(None);
        };
        let head = HttpRequestHead {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            peer_addr: parts.extensions.get::<SocketAddr>().copied(),
        };
        match authenticate.ask(head).await {
            Ok(identity) => {
                let subject = identity.shared_subject();
                identity.enter(&mut parts.extensions);
                if self.shared.resource.is_some() {
                    // Removed so that no tool can pass the token on, which the specification forbids.
                    parts.headers.remove(AUTHORIZATION);
                }
                Ok(Some(subject))
            }
            Err(refusal) => {
                let reason = refusal.status().canonical_reason().unwrap_or_default();
                let mut response = text(refusal.status(), reason);
                if let Some(challenge) = refusal.challenge() {
                    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                Err(Box::new(response))
            }
        }
    }

    /// Reads the body of a request. Returns the HTTP response for the client if the body is too long, arrives too
    /// slowly or cannot be read.
    async fn read<B>(&self, body: B) -> Result<Bytes, Refused>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Shared { max_body_bytes, read_timeout, .. } = *self.shared;
        body::read(body, max_body_bytes, read_timeout).await.map_err(|unread| {
            let (status, words) = match unread {
                Unread::TooLong => {
                    let words = format!("at most {max_body_bytes} bytes are allowed");
                    (StatusCode::PAYLOAD_TOO_LARGE, words)
                }
                Unread::TooSlow => {
                    (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".to_owned())
                }
                Unread::Broken(error) => {
                    (StatusCode::BAD_REQUEST, format!("the body could not be read: {error}"))
                }
            };
            // The rest of the body is not read, so the connection cannot be reused.
            with(refused(status, &words), CONNECTION, "close")
        })
    }

    /// Marks the session of a request as used until the returned guard is dropped. Returns `None` if the request has no
    /// session id, or if the session does not exist or is being closed.
    ///
    /// Refuses a request for the session of another identity. The response is the same as for an unknown session.
    fn session(
        &self,
        headers: &HeaderMap,
        subject: Option<&str>,
    ) -> Result<Option<SessionUse>, Refused> {
        let Some(id) = headers.get(SESSION_ID).and_then(|id| id.to_str().ok()) else {
            return Ok(None);
        };
        self.shared.sessions.enter(id, subject).map_err(|SessionOwnerMismatch| {
            tracing::warn!(?subject, "refused a request for the session of another identity");
            no_session()
        })
    }

    /// Passes a request to the SDK and returns the response. Meanwhile also runs the steps of a shutdown, because the
    /// service has no background task.
    async fn ask_sdk(&self, request: Request<Full<Bytes>>) -> Response<SdkBody> {
        let mut answer = Box::pin(self.sdk.handle(request));
        tokio::select! {
            biased;
            response = &mut answer => response,
            () = self.shared.shutdown.proceed() => answer.await,
        }
    }

    /// Makes the body of a response end early when the server shuts down.
    ///
    /// - A listening stream ends when shutdown is requested, or after the duration in `listens`.
    /// - For other responses, `listens` is `None`. They end after the last step of the shutdown.
    ///
    /// `used` marks the session and the connection as used until the response is complete.
    fn with_end(
        &self,
        response: Response<SdkBody>,
        listens: Option<Duration>,
        used: (Option<SessionUse>, Option<Carrying>),
    ) -> Response<McpHttpBody> {
        let shared = self.shared.clone();
        let until: BoxFuture<'static, ()> = Box::pin(async move {
            let shutdown = &shared.shutdown;
            match listens {
                // A listening stream ends when its token expires or the shutdown begins.
                Some(time) => drop(tokio::time::timeout(time, shutdown.asked().cancelled()).await),
                None => shutdown.proceed().await,
            }
        });
        response.map(|body| McpHttpBody::stream(body, until, used))
    }
}

impl<B> tower::Service<Request<B>> for McpHttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<McpHttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl fmt::Debug for McpHttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttpService").finish_non_exhaustive()
    }
}

/// Body of the SDK's responses.
type SdkBody = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// Returns the key by which a client's sessions are counted. The key is the identity `subject`, or the IP address if
/// the server does not authenticate. Returns `None` if both are unknown.
fn client(parts: &Parts, subject: Option<&str>) -> Client {
    let address = || parts.extensions.get::<SocketAddr>().map(SocketAddr::ip);
    match subject {
        Some(subject) => Some(format!("identity {subject}").into()),
        None => address().map(|address| format!("address {}", network(address)).into()),
    }
}

/// Returns `true` if a request without a session id begins a session. Only the method `initialize` does so, which
/// exists only before protocol version 2026-07-28.
fn begins_session(parts: &Parts, body: &[u8]) -> bool {
    parts.method == Method::POST && method_of(body).is_some_and(|method| method == "initialize")
}

/// Returns `true` if a body is a request about a task.
fn is_about_a_task(body: &[u8]) -> bool {
    method_of(body).is_some_and(|method| method.starts_with(TASK_METHODS))
}

/// Returns the method of a body that is a single JSON-RPC request or notification.
fn method_of(body: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    serde_json::from_slice::<Message<'_>>(body).ok().map(|message| message.method)
}

/// Returns `true` if a request may be about a task, or may contain a response or a cancellation for a running call.
/// Also returns `true` for every CORS preflight, because it may precede such a request.
fn may_be_for_a_call(parts: &Parts) -> bool {
    let method = parts.headers.get(MCP_METHOD).and_then(|method| method.to_str().ok());
    let is_about_a_task = method.is_some_and(|method| method.starts_with(TASK_METHODS));
    parts.method == Method::POST && (is_about_a_task || parts.headers.contains_key(SESSION_ID))
        || cors::is_preflight(&parts.method, &parts.headers)
}

/// Returns `true` if a body is a JSON-RPC request or is invalid. Returns `false` for responses and notifications.
fn asks(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: Option<IgnoredAny>,
        id: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Message>(body)
        .map_or(true, |message| message.method.is_some() && message.id.is_some())
}

/// Returns `true` if a request only opens a stream for notifications. The method of such a request is `GET` before
/// protocol version 2026-07-28, and `subscriptions/listen` in later versions.
fn only_listens(parts: &Parts) -> bool {
    parts.method == Method::GET
        || parts.headers.get(MCP_METHOD).is_some_and(|method| method == "subscriptions/listen")
}

/// Returns `true` if the `Content-Type` is JSON.
fn has_json_body(parts: &Parts) -> bool {
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Creates a response with plain text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<McpHttpBody> {
    let mut response = Response::new(McpHttpBody::text(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Creates the HTTP response to a refused request. The body is the standard reason of the status, followed by `words`.
fn refused(status: StatusCode, words: &str) -> Refused {
    let reason = status.canonical_reason().unwrap_or_default();
    Box::new(text(status, format!("{reason}: {words}")))
}

/// Adds a header to the HTTP response to a refused request.
fn with(mut response: Refused, name: HeaderName, value: &'static str) -> Refused {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// Creates the HTTP response (404) to a request for an unknown session.
fn no_session() -> Refused {
    refused(StatusCode::NOT_FOUND, "Session not found")
}

/// Creates the HTTP response (503) to a request that is refused because the server shuts down.
fn closing() -> Refused {
    let response = refused(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    with(response, CONNECTION, "close")
}

/// Creates the response with status 503 to a request for a new session if all sessions are in use. Its `Retry-After`
/// header asks the client to wait 30 seconds.
fn no_room() -> Refused {
    let response = refused(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions");
    with(response, RETRY_AFTER, "30")
}

/// Creates the response to a JSON body that is not a JSON-RPC message. It has status 400 and contains a JSON-RPC "Parse
/// error" without an id.
fn no_message() -> Refused {
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"the body is not a JSON-RPC message"},"id":null}"#;
    with(Box::new(text(StatusCode::BAD_REQUEST, body)), CONTENT_TYPE, "application/json")
}
