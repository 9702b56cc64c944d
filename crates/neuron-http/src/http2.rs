//! Shares HTTP/2 connections between requests ([`Multiplexed`]).
//!
//! A server accepts a limited number of requests at the same time on a connection, often 100 or 128. Further requests
//! would wait for the others, which may be streams of many minutes. A full connection is therefore followed by another
//! one.
//!
//! The tasks of a connection run in the runtime of the request that opened it. Only requests in this runtime share the
//! connection, because the tasks end with their runtime, and pause while nothing drives it.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use neuron_model::{BoxError, ProviderError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::body::{Clock, current_clock};
use crate::chunks::Chunks;
use crate::connect::{ConnectError, Connector, Io, KEEPALIVE};
use crate::idle::{self, CLOSE_WINDOW};
use crate::transport::{self, MAX_HEAD_BYTES, causes};

/// Time after which an unused connection is closed.
pub(crate) const MAX_IDLE: Duration = Duration::from_secs(90);

/// Maximum number of requests at the same time on a connection, even if the server accepts more. With it, the streams
/// of all requests fit into the window of the connection.
const MAX_STREAMS: u32 = 128;

/// Size in bytes of the window of a stream (512 KiB). The server may send this much before the client has read it. Most
/// responses fit, so the server does not wait for the client.
const STREAM_WINDOW: u32 = 512 * 1024;

/// Maximum wait for the answer to a ping. A server that is busy answers late, and its streams must not be lost then. On
/// Linux, the kernel detects a dead peer earlier.
const PING_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval at which the settings of a new connection are awaited. hyper does not report their arrival.
const SETTINGS_INTERVAL: Duration = Duration::from_millis(2);

/// Interval at which the limit of requests and the use of a connection are checked. hyper does not report that a server
/// has changed the limit.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The HTTP/2 connections of a client to one server.
#[derive(Default)]
pub(crate) struct Multiplexed {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The connections of each runtime.
    states: Mutex<HashMap<Clock, State>>,
    /// Set if the server chose HTTP/1.1 for a connection. All later requests then use HTTP/1.1.
    is_http1: AtomicBool,
}

/// The connections of a runtime.
#[derive(Default)]
struct State {
    connections: Vec<OpenConnection>,
    /// The result of the connection that is being opened. Requests that start together wait for the same connection.
    opening: Option<watch::Receiver<Opening>>,
}

/// The result of opening a connection. `None` while the connection is being opened. The inner `None` is a connection
/// with HTTP/1.1.
type Opening = Option<Result<Option<OpenConnection>, ConnectError>>;

#[derive(Clone)]
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    streams: Arc<Streams>,
}

/// The use of a connection.
#[derive(Default)]
struct Streams {
    /// The number of requests on the connection, until their bodies are read or dropped.
    open: AtomicUsize,
    /// The number of requests that the server accepts at the same time.
    limit: AtomicUsize,
    /// Set by each request, and reset at each [check](CHECK_INTERVAL).
    is_used: AtomicBool,
    /// Set after the first response.
    has_served: AtomicBool,
    /// Start of the first request after the connection was idle, until a response arrives. `None` on a new connection.
    resumed: Mutex<Option<Instant>>,
}

/// The place of a request on a connection, until it is dropped.
pub(crate) struct Place(Arc<Streams>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Multiplexed {
    /// Sends a request, which `request` creates for each attempt. Returns `None` if the server does not offer HTTP/2, or
    /// requires HTTP/1.1 for the request.
    ///
    /// The request is sent a second time on another connection in these cases:
    ///
    /// - The server has not processed it, as its frame GOAWAY or the code `REFUSED_STREAM` says ([RFC 9113, section
    ///   8.7](https://www.rfc-editor.org/rfc/rfc9113#section-8.7)).
    /// - The server closed the connection while it was idle, as described for [`idle`].
    ///
    /// # Errors
    ///
    /// The errors of [`transport::network_error`]. The error of a second attempt is that of
    /// [`transport::second_attempt_error`] if the server closed an idle connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future resets the stream of the request. Other requests on the connection continue.
    pub(crate) async fn send(
        &self,
        connector: &Connector,
        uri: &Uri,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Option<Response<Chunks>>, ProviderError> {
        let first = self.connection(connector, uri, None).await;
        let Some(first) = first.map_err(|error| transport::network_error(uri, &error))? else {
            return Ok(None);
        };
        let (failed, error) = match first.send(request()).await {
            Ok(response) => return Ok(Some(response)),
            Err(failed) => failed,
        };
        let second_error = match failed.repeat {
            Repeat::No => return Err(transport::network_error(uri, &error)),
            Repeat::Http1 => {
                self.shared.is_http1.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Repeat::Unprocessed => transport::network_error,
            Repeat::Closed => transport::second_attempt_error,
        };
        let second = self.connection(connector, uri, Some(&failed.streams)).await;
        match second.map_err(|error| second_error(uri, &error))? {
            None => Err(second_error(uri, &error)),
            Some(second) => match second.send(request()).await {
                Ok(response) => Ok(Some(response)),
                Err((_, error)) => Err(second_error(uri, &error)),
            },
        }
    }

    /// Returns a connection that accepts another request, but not the connection `avoided`. Opens a connection if there
    /// is none. Returns `None` if the server does not offer HTTP/2.
    async fn connection(
        &self,
        connector: &Connector,
        uri: &Uri,
        avoided: Option<&Arc<Streams>>,
    ) -> Result<Option<Reserved>, ConnectError> {
        loop {
            if self.shared.is_http1.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let mut opening = {
                let mut states = self.shared.lock();
                states.retain(|_, state| state.remove_ended());
                let state = states.entry(current_clock()).or_default();
                if let Some(reserved) = state.reserve(avoided) {
                    return Ok(Some(reserved));
                }
                let opening = &mut state.opening;
                opening.get_or_insert_with(|| self.start_opening(connector, uri)).clone()
            };
            // An error means that the task ended with its runtime. Then this request opens the connection.
            let Ok(result) = opening.wait_for(Option::is_some).await else {
                continue;
            };
            match &*result {
                Some(Ok(Some(connection))) if connection.sender.is_closed() => {
                    return Err(ConnectError::new("the server closed the new connection"));
                }
                Some(Err(error)) => return Err(error.clone()),
                _ => {}
            }
        }
    }

    /// Opens a connection in a task. A request that is dropped or not polled must not delay the others.
    fn start_opening(&self, connector: &Connector, uri: &Uri) -> watch::Receiver<Opening> {
        let (sender, receiver) = watch::channel(None);
        let (shared, connector, uri) = (Arc::clone(&self.shared), connector.clone(), uri.clone());
        tokio::spawn(async move {
            let opened = open(&connector, uri).await;
            let mut states = shared.lock();
            let state = states.entry(current_clock()).or_default();
            state.opening = None;
            let result = match opened {
                Ok(Opened::Http2(connection)) => {
                    state.connections.push(connection.clone());
                    Ok(Some(connection))
                }
                Ok(Opened::Http1(io)) => {
                    connector.keep(io);
                    shared.is_http1.store(true, Ordering::Relaxed);
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            drop(states);
            sender.send_replace(Some(result));
        });
        receiver
    }
}

impl fmt::Debug for Multiplexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplexed").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Clock, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes closed connections, and an opening that ended with its runtime. Returns `false` if nothing is left.
    fn remove_ended(&mut self) -> bool {
        self.connections.retain(|connection| !connection.sender.is_closed());
        self.opening.take_if(|opening| opening.has_changed().is_err());
        self.opening.is_some() || !self.connections.is_empty()
    }

    /// Reserves a place on an open connection.
    fn reserve(&self, avoided: Option<&Arc<Streams>>) -> Option<Reserved> {
        self.connections.iter().find_map(|OpenConnection { sender, streams }| {
            let open = streams.open.load(Ordering::Relaxed);
            let is_avoided = avoided.is_some_and(|avoided| Arc::ptr_eq(avoided, streams));
            if is_avoided || open >= streams.limit.load(Ordering::Relaxed) {
                return None;
            }
            if open == 0 {
                let has_served = streams.has_served.load(Ordering::Relaxed);
                *streams.resumed() = has_served.then(Instant::now);
            }
            streams.open.fetch_add(1, Ordering::Relaxed);
            streams.is_used.store(true, Ordering::Relaxed);
            Some(Reserved { sender: sender.clone(), place: Place(Arc::clone(streams)) })
        })
    }
}

/// A connection with a place for a request.
struct Reserved {
    sender: SendRequest<Full<Bytes>>,
    place: Place,
}

/// The failure of a request.
struct Failed {
    streams: Arc<Streams>,
    repeat: Repeat,
}

/// The second attempt of a request.
enum Repeat {
    /// The server may have processed the request.
    No,
    /// The server has not processed the request.
    Unprocessed,
    /// The server closed an idle connection. It has probably not read the request.
    Closed,
    /// The server requires HTTP/1.1, for example for an authentication of the connection.
    Http1,
}

impl Reserved {
    async fn send(
        mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Chunks>, (Failed, hyper::Error)> {
        let streams = &self.place.0;
        match self.sender.try_send_request(request).await {
            Ok(response) => {
                streams.has_served.store(true, Ordering::Relaxed);
                *streams.resumed() = None;
                Ok(response.map(|body| Chunks::Shared { body, place: Some(self.place) }))
            }
            Err(error) => {
                // All requests that started together on the idle connection fail together.
                let was_idle = streams.resumed().is_some_and(|at| at.elapsed() < CLOSE_WINDOW);
                let was_closed = was_idle && idle::is_close(error.error());
                let repeat = match Repeat::of(&error) {
                    Repeat::No if was_closed => Repeat::Closed,
                    repeat => repeat,
                };
                let failed = Failed { streams: Arc::clone(streams), repeat };
                Err((failed, error.into_error()))
            }
        }
    }
}

impl Repeat {
    /// Returns the attempt that an error allows because the server has not processed the request.
    fn of(error: &TrySendError<Request<Full<Bytes>>>) -> Self {
        // The request was not written, because the connection was closing.
        if error.message().is_some() {
            return Self::Unprocessed;
        }
        let error = causes(error.error()).find_map(|cause| cause.downcast_ref::<h2::Error>());
        let Some(error) = error.filter(|error| error.is_remote()) else {
            return Self::No;
        };
        match error.reason() {
            // The code may be that of RST_STREAM or GOAWAY.
            Some(h2::Reason::HTTP_1_1_REQUIRED) => Self::Http1,
            // `h2` reports GOAWAY only for streams that the frame excludes.
            _ if error.is_go_away() => Self::Unprocessed,
            Some(h2::Reason::REFUSED_STREAM) => Self::Unprocessed,
            _ => Self::No,
        }
    }
}

/// A new connection.
enum Opened {
    Http2(OpenConnection),
    /// The server does not offer HTTP/2.
    Http1(Io),
}

/// Opens a connection and waits for the settings of the server, within the timeout of `connector`.
async fn open(connector: &Connector, uri: Uri) -> Result<Opened, ConnectError> {
    let start = Instant::now();
    let io = connector.open(uri).await?;
    if !io.is_http2() {
        return Ok(Opened::Http1(io));
    }
    let handshake = async {
        let (sender, mut connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .adaptive_window(false)
            .initial_stream_window_size(STREAM_WINDOW)
            // A stream that is not read must not stop the other streams.
            .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES)
            // Detects a dead peer during a long wait for a response.
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false)
            // The limit is 0 until the settings of the server arrive.
            .initial_max_send_streams(0)
            .handshake(io)
            .await?;
        loop {
            if let Ok(ended) = timeout(SETTINGS_INTERVAL, &mut connection).await {
                return match ended {
                    Ok(()) => Err("the server closed the new connection".into()),
                    Err(error) => Err(BoxError::from(error)),
                };
            }
            let limit = connection.current_max_send_streams();
            if limit > 0 {
                let streams = Arc::new(Streams::default());
                streams.set_limit(limit);
                tokio::spawn(drive(connection, Arc::clone(&streams)));
                return Ok(Opened::Http2(OpenConnection { sender, streams }));
            }
        }
    };
    match timeout(connector.timeout().saturating_sub(start.elapsed()), handshake).await {
        Ok(opened) => opened.map_err(ConnectError::new),
        Err(_) => Err(ConnectError::new("the server sends no HTTP/2 settings")),
    }
}

/// The part of a connection that accepts requests. Tasks of hyper do the rest.
type Driver = Connection<Io, Full<Bytes>, TokioExecutor>;

/// Drives a connection until it ends or is unused for [`MAX_IDLE`].
async fn drive(mut connection: Driver, streams: Arc<Streams>) {
    let mut last_use = Instant::now();
    while last_use.elapsed() < MAX_IDLE {
        let driven = poll_fn(|cx| {
            let ended = Pin::new(&mut connection).poll(cx);
            streams.set_limit(connection.current_max_send_streams());
            ended
        });
        if timeout(CHECK_INTERVAL, driven).await.is_ok() {
            return;
        }
        let was_used = streams.is_used.swap(false, Ordering::Relaxed);
        if was_used || streams.open.load(Ordering::Relaxed) > 0 {
            last_use = Instant::now();
        }
    }
}

impl Streams {
    fn resumed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.resumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_limit(&self, limit: usize) {
        let most = usize::try_from(MAX_STREAMS).unwrap_or(usize::MAX);
        self.limit.store(limit.min(most), Ordering::Relaxed);
    }
}
