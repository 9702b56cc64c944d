//! The connections of a server that listens itself.

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
use super::patient::patient;
use super::peers::{Entered, Peers};
use super::service::{McpHttpService, text};
use super::sessions::HANDSHAKE;

/// How long the server waits before it accepts again, if the system had no room for a connection.
const NO_ROOM: Duration = Duration::from_millis(100);
/// How long connections may take to close, once all that they carry has ended.
const CLOSING: Duration = Duration::from_secs(1);
/// How long sessions may take to end. The SDK gives the calls of one two seconds.
const ENDING: Duration = Duration::from_secs(4);

/// The longest time that a client may take for the head of a request: hyper adds it to the clock, which must
/// not overflow.
const LONGEST_READ: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Serves connections until shutdown was asked for and all has ended.
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
        // Dropped with the future: so are the connections then.
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

    // What a call asked its client for comes by another request, on a connection that may be new.
    let answers = GracefulShutdown::new();
    let mut calls_end = std::pin::pin!(calls.shutdown());
    let have_ended = tokio::select! {
        () = &mut calls_end => true,
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
        tracing::warn!("sessions are left whose calls do not end");
    }
    tasks.shutdown().await;
}

/// Ends sessions that nobody uses, for as long as it is polled.
async fn close_idle(service: &McpHttpService, interval: Duration) {
    let mut interval = tokio::time::interval(interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        service.sessions().close_idle().await;
    }
}

/// What listens, and the connections that there are.
struct Connections {
    listener: TcpListener,
    endpoint: Endpoint,
    room: Arc<Semaphore>,
    peers: Arc<Peers>,
    tasks: JoinSet<()>,
}

impl Connections {
    /// Serves connections for as long as it is polled, and those that there are after that too. They end
    /// with `graceful`, after what they carry.
    async fn accept(&mut self, graceful: &GracefulShutdown) {
        loop {
            tokio::select! {
                (room, stream, peer) = accept(&self.listener, &self.room) => {
                    let Some(entered) = self.peers.enter(peer.ip()) else {
                        tracing::warn!(%peer, "refused a connection of an address that has too many");
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
                        tracing::error!(%error, "a connection ended by a panic");
                    }
                }
            }
        }
    }

    /// Lets nobody connect any more; returns the connections that there are.
    fn stop_listening(self) -> JoinSet<()> {
        self.tasks
    }
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, TcpStream, SocketAddr) {
    // An error says that the semaphore was closed, which nobody does.
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

/// Whether an error concerns only the connection that was to be accepted, and not the next one.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// What answers on a connection.
#[derive(Clone)]
struct Endpoint {
    service: McpHttpService,
    path: Arc<str>,
    http: http1::Builder,
    write_timeout: Duration,
}

impl Endpoint {
    fn new(service: McpHttpService, config: &HttpServerConfig) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(config.head_timeout.min(config.read_timeout).min(LONGEST_READ))
            .max_header_size(config.max_head_bytes)
            // What is read at once.
            .max_buf_size(config.max_head_bytes.max(64 * 1024));
        let path = config.path.as_str().into();
        Self { service, path, http, write_timeout: config.write_timeout }
    }

    /// Serves one connection to its end.
    async fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        entered: &Entered,
        watcher: Watcher,
    ) {
        // Events are small, and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| self.answer(request, peer, entered));
        let stream = TokioIo::new(patient(stream, self.write_timeout));
        let connection = self.http.serve_connection(stream, service);
        tokio::select! {
            ended = watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!(%error, %peer, "an HTTP connection broke off");
            },
            () = entered.gives_way() => {
                tracing::debug!(%peer, "an HTTP connection gives way to another of its address");
            }
        }
    }

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
    fn errors_of_one_connection_are_told_from_those_of_the_system() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset] {
            assert!(is_of_one_connection(&kind.into()));
        }
        let too_many_files = io::Error::from_raw_os_error(24);
        assert!(!is_of_one_connection(&too_many_files));
    }
}
