//! A receiver of OTLP over HTTP, on the loopback interface.
//!
//! The receiver runs on a separate thread, because exporters block the test's thread while they flush.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The response of the receiver to requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A successful response, as the protocol defines it. The data is stored.
    #[default]
    Accept,
    /// A response with this status and no body. The data is discarded.
    Status(u16),
    /// No response while the receiver has this setting. Waiting requests get an error after the setting has changed.
    Never,
}

/// The received data, and the response to later requests.
#[derive(Debug, Default)]
struct State {
    answer: Answer,
    requests: usize,
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
}

type Shared = Arc<Mutex<State>>;

/// A server for `POST /v1/traces` and `POST /v1/metrics`. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Shared,
    runtime: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let state = Shared::default();
        let stop = CancellationToken::new();
        let (sender, started) = mpsc::channel();
        let (shared, stopped) = (Arc::clone(&state), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                sender.send((listener.local_addr().unwrap(), Handle::current())).unwrap();
                stopped.run_until_cancelled(accept(listener, shared)).await;
            });
        });
        let (address, runtime) = started.recv().unwrap();
        Self { address, state, runtime, stop, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the handle of the runtime on which exporters open their connections.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Sets the response to all later requests.
    pub(crate) fn answer(&self, answer: Answer) {
        lock(&self.state).answer = answer;
    }

    /// Returns the number of received requests, including requests whose data was discarded.
    pub(crate) fn requests(&self) -> usize {
        lock(&self.state).requests
    }

    /// Returns the received spans, in the order in which they arrived.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let state = lock(&self.state);
        let scopes = state
            .traces
            .iter()
            .flat_map(|request| &request.resource_spans)
            .flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.iter().cloned()).collect()
    }

    /// Returns the metrics that were received last. They contain all measurements, because exporters send cumulative
    /// values.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let state = lock(&self.state);
        let last = state.metrics.last().into_iter();
        let scopes = last
            .flat_map(|request| &request.resource_metrics)
            .flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics.iter().cloned()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the test fails because data is missing.
            let _ = thread.join();
        }
    }
}

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, state: Shared) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&state)));
    }
}

async fn serve(stream: TcpStream, state: Shared) {
    let service = service_fn(|request| answer(request, &state));
    // The call fails when a client disconnects.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    state: &Shared,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let answer = {
        let mut state = lock(state);
        state.requests += 1;
        state.answer
    };
    match answer {
        Answer::Accept => {}
        Answer::Status(status) => return Ok(empty(StatusCode::from_u16(status).unwrap())),
        Answer::Never => {
            while lock(state).answer == Answer::Never {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            return Ok(empty(StatusCode::BAD_REQUEST));
        }
    }
    if head
        .headers
        .get(http::header::CONTENT_TYPE)
        .is_none_or(|kind| kind != "application/x-protobuf")
    {
        return Ok(empty(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(match (&head.method, head.uri.path()) {
        (&Method::POST, "/v1/traces") => match ExportTraceServiceRequest::decode(body) {
            Ok(request) => {
                lock(state).traces.push(request);
                message(&ExportTraceServiceResponse::default())
            }
            Err(_) => empty(StatusCode::BAD_REQUEST),
        },
        (&Method::POST, "/v1/metrics") => match ExportMetricsServiceRequest::decode(body) {
            Ok(request) => {
                lock(state).metrics.push(request);
                message(&ExportMetricsServiceResponse::default())
            }
            Err(_) => empty(StatusCode::BAD_REQUEST),
        },
        (_, "/v1/traces" | "/v1/metrics") => empty(StatusCode::METHOD_NOT_ALLOWED),
        _ => empty(StatusCode::NOT_FOUND),
    })
}

fn message(message: &impl Message) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message.encode_to_vec()));
    let protobuf = http::HeaderValue::from_static("application/x-protobuf");
    response.headers_mut().insert(http::header::CONTENT_TYPE, protobuf);
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
