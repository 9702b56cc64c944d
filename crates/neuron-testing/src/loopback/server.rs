//! A server on the loopback interface, with its tasks and connections.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::body::{Body, InFlight, body};
use super::plan::Plan;
use super::record::{Record, RecordedRequest};
use crate::queue::lock;

/// A server on a free port of 127.0.0.1. Dropping the server closes the port immediately, and its connections soon
/// after.
#[derive(Debug)]
pub(crate) struct LoopbackServer {
    address: SocketAddr,
    pub(crate) record: Arc<Record>,
    listener: Arc<Slot>,
    accepting: AbortHandle,
}

/// The listener, or `None` after the server was dropped.
///
/// The accepting task borrows the listener from this slot for each poll and does not own it. So `drop` closes the port
/// immediately, even if the aborted task ends later.
type Slot = Mutex<Option<TcpListener>>;

impl LoopbackServer {
    /// Starts a server. Responses begin only after `gather` requests have arrived.
    ///
    /// `handler` plans the response to a request, and receives the number of the request, counted from 1. Calls of
    /// `handler` never overlap.
    pub(crate) async fn start(
        gather: usize,
        handler: impl Fn(usize, &RecordedRequest) -> Plan + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let listener = Arc::new(Mutex::new(Some(listener)));
        let record = Arc::<Record>::default();
        let service = Service { handler: Box::new(handler), record: Arc::clone(&record), gather };
        let accepting = tokio::spawn(accept(Arc::clone(&listener), Arc::new(service)));
        Ok(Self { address, record, listener, accepting: accepting.abort_handle() })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        drop(lock(&self.listener).take());
        self.accepting.abort();
    }
}

type Handler = dyn Fn(usize, &RecordedRequest) -> Plan + Send + Sync;

struct Service {
    handler: Box<Handler>,
    record: Arc<Record>,
    /// Number of requests that must arrive before the first response.
    gather: usize,
}

/// Accepts connections until the server is dropped, which takes the listener from its slot.
async fn accept(listener: Arc<Slot>, service: Arc<Service>) {
    // Dropping this set, when the task ends, aborts the tasks of all connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = poll_fn(|cx| {
            // The set would otherwise keep the result of every finished connection.
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            match &*lock(&listener) {
                Some(listener) => listener.poll_accept(cx).map(Some),
                None => Poll::Ready(None),
            }
        })
        .await;
        match accepted {
            Some(Ok((stream, _))) => {
                service.record.count(|counts| counts.connections += 1);
                connections.spawn(serve(stream, Arc::clone(&service)));
            }
            // The connection broke before it was accepted.
            Some(Err(_)) => {}
            None => return,
        }
    }
}

/// Serves the requests of one connection until the connection closes.
async fn serve(stream: TcpStream, service: Arc<Service>) {
    // Without `nodelay`, the kernel may join small chunks, and tests split responses into chunks on purpose.
    let _ = stream.set_nodelay(true);
    // Returns an error if the client disconnects or the script aborts the response. `InFlight` counts disconnects, and
    // an abort is intended.
    let _ = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service_fn(|request| service.answer(request)))
        .await;
}

impl Service {
    /// Reads and records a request, and returns the response that the handler plans. Waits until the number of requests
    /// in `gather` has arrived. Then runs the steps before the response, such as a delay or an abort.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, incoming) = request.into_parts();
        let received = incoming.collect().await.map_err(io::Error::other)?;
        let request = RecordedRequest::new(&head, &received.to_bytes());
        let mut in_flight = InFlight::new(Arc::clone(&self.record));
        let plan = self.record.requested(request, &self.handler);
        self.record.wait_for(|counts| counts.requests >= self.gather).await;
        for step in plan.before {
            step.take(&mut in_flight).await?;
        }
        let mut response = Response::new(body(plan.body, in_flight));
        *response.status_mut() =
            http::StatusCode::from_u16(plan.status).map_err(io::Error::other)?;
        for (name, value) in plan.headers {
            let name: HeaderName = name.parse().map_err(io::Error::other)?;
            let value: HeaderValue = value.parse().map_err(io::Error::other)?;
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }
}
