//! [`serve`], which accepts and serves the connections of a standalone HTTP server.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::body::McpHttpBody;
use super::config::HttpServerConfig;
use super::peers::{Entered, Peers};
use super::service::{McpHttpService, text};
use super::sessions::HANDSHAKE;
use super::write_timeout::with_write_timeout;

/// Delay before the next attempt to accept a connection, if the system has no resources for a connection.
const NO_ROOM: Duration = Duration::from_millis(100);
/// Maximum time for closing all connections during a shutdown, after the running calls have ended.
const CLOSING: Duration = Duration::from_secs(1);
/// Maximum time for ending all sessions during a shutdown. The SDK may use two seconds of it for the running calls of a
/// session.
const ENDING: Duration = Duration::from_secs(4);

/// Maximum time in which a connection must receive the next complete request head, with the wait for its first byte.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves connections until shutdown is requested, and then until all requests and sessions have ended.
pub(super) async fn serve(
    listener: TcpListener,
    service: McpHttpService,
    config: &HttpServerConfig,
) {
    let room = config.max_connections.min(Semaphore::MAX_PERMITS);
    let mut connections = Connections {
        listener,
        endpoint: Endpoint::new(service.clone(), config),
        room: Arc::new(Semaphore::new(room)),
        peers: Peers::new(config.max_connections_per_address),
        // If the future of `serve` is dropped, this set is dropped too, which closes all connections.
        tasks: JoinSet::new(),
    };
    let shutdown = service.shutdown();
    let calls = GracefulShutdown::new();
    let shortest = Duration::from_millis(100);
    let idle = config.session_idle_timeout.clamp(shortest, HANDSHAKE);
    tokio::select! {
        () = shutdown.asked().cancelled() => {}
        () = connections.accept(&calls) => {}
        () = close_idle(&service, idle) => {}
    }

    // Accepts further connections while calls are running. A client may send its response to a running call on a new
    // connection.
    let answers = GracefulShutdown::new();
    let mut calls_end = std::pin::pin!(future::join(calls.shutdown(), service.tasks_ended()));
    let have_ended = tokio::select! {
        _ = &mut calls_end => true,
        () = shutdown.proceed() => false,
        () = connections.accept(&answers) => false,
    };
    let calls_end = async {
        if !have_ended {
            calls_end.await;
        }
    };
    let mut tasks = connections.stop_listening();
    let all_end = future::join(calls_end, answers.shutdown());
    let _ = tokio::time::timeout(CLOSING, all_end).await;
    shutdown.end();
    if tokio::time::timeout(ENDING, service.sessions().ended()).await.is_err() {
        tracing::warn!("the HTTP server ends with open sessions, because their calls do not end");
    }
    tasks.shutdown().await;
}

/// Closes idle sessions once per `interval`. Never completes.
async fn close_idle(service: &McpHttpService, interval: Duration) {
    let mut interval = tokio::time::interval(interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        service.sessions().close_idle().await;
    }
}

/// The listener and the open connections of a server.
struct Connections {
    /// The listening socket.
    listener: TcpListener,
    /// The service that handles the requests.
    endpoint: Endpoint,
    /// Limits the number of concurrent connections.
    room: Arc<Semaphore>,
    /// Limits the number of concurrent connections of each IP address.
    peers: Arc<Peers>,
    /// Tasks that serve the open connections.
    tasks: JoinSet<()>,
}

impl Connections {
    /// Accepts connections, and serves each connection in a separate task. Never completes. If this future is dropped,
    /// the tasks continue.
    ///
    /// When `graceful` is shut down, each connection closes after its running request.
    async fn accept(&mut self, graceful: &GracefulShutdown) {
        loop {
            tokio::select! {
                (room, stream, peer) = accept(&self.listener, &self.room) => {
                    let Some(entered) = self.peers.enter(peer.ip()) else {
                        tracing::warn!(%peer, "refused a connection: its address has too many");
                        continue;
                    };
                    let watcher = graceful.watcher();
                    let endpoint = self.endpoint.clone();
                    self.tasks.spawn(async move {
                        endpoint.serve(stream, peer, &entered, watcher).await;
                        drop(room);
                    });
                }
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the task of an HTTP connection panicked");
                    }
                }
            }
        }
    }

    /// Closes the listening socket, and returns the tasks that serve the open connections.
    fn stop_listening(self) -> JoinSet<()> {
        self.tasks
    }
}

/// Waits until the number of connections is below the limit. Then returns the next connection and the address of its
/// client.
///
/// The connection counts against the limit until the returned permit is dropped. The permit would be `None` only for a
/// closed semaphore, and `room` is never closed.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, TcpStream, SocketAddr) {
    // Never an error, because this semaphore is never closed.
    let room = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (room, stream, peer),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(NO_ROOM).await;
            }
        }
    }
}

/// Returns `true` if an error of `accept` concerns only a single connection. Other errors, such as too many open files,
/// also prevent other connections for some time.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// The service and the HTTP settings that all connections share.
#[derive(Clone)]
struct Endpoint {
    /// The HTTP service of the MCP server, which handles the requests.
    service: McpHttpService,
    /// Path of the endpoint.
    path: Arc<str>,
    /// hyper's settings for connections.
    http: http1::Builder,
    /// Timeout for a write without progress.
    write_timeout: Duration,
}

impl Endpoint {
    /// Creates an endpoint with the limits of a configuration.
    fn new(service: McpHttpService, config: &HttpServerConfig) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT.min(config.read_timeout))
            .max_header_size(config.max_head_bytes)
            // hyper reads the request head into this buffer, so the buffer must hold the longest head.
            .max_buf_size(config.max_head_bytes.max(64 * 1024));
        let path = config.path.as_str().into();
        Self { service, path, http, write_timeout: config.write_timeout }
    }

    /// Serves one connection until the client closes it, the shutdown closes it, or another connection of the same
    /// address replaces it.
    async fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        entered: &Entered,
        watcher: Watcher,
    ) {
        // Disables Nagle's algorithm, because events are small and must not be delayed.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| self.answer(request, peer, entered));
        let stream = TokioIo::new(with_write_timeout(stream, self.write_timeout));
        let connection = self.http.serve_connection(stream, service);
        tokio::select! {
            ended = watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!(%error, %peer, "an HTTP connection failed");
            },
            () = entered.gives_way() => {
                tracing::debug!(%peer, "closed an idle HTTP connection: its address has too many");
            }
        }
    }

    /// Handles one request. Requests for paths other than the endpoint and the metadata get the status 404.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
        entered: &Entered,
    ) -> Result<Response<McpHttpBody>, Infallible> {
        let path = request.uri().path();
        if path != &*self.path && !self.service.has_metadata_at(path) {
            let text = format!("Not Found: the endpoint is {}", self.path);
            return Ok(self::text(StatusCode::NOT_FOUND, text));
        }
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(entered.connection().clone());
        Ok(self.service.answer(request).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_errors_of_one_connection_differ_from_errors_of_the_listener() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset] {
            assert!(is_of_one_connection(&kind.into()));
        }
        let too_many_files = io::Error::from_raw_os_error(24);
        assert!(!is_of_one_connection(&too_many_files));
    }
}
