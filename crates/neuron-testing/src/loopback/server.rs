//! A server on the loopback interface: its tasks, its connections, its end.

use std::future::{pending, poll_fn};
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
use super::plan::{Answer, Plan};
use super::record::{Record, RecordedRequest};
use crate::queue::lock;

/// Says what to do with a request. Called for one request at a time.
type Handler = dyn Fn(&RecordedRequest) -> Plan + Send + Sync;

/// A server on 127.0.0.1, on a free port. Dropping it closes the port at once and its connections
/// soon after.
#[derive(Debug)]
pub(crate) struct LoopbackServer {
    address: SocketAddr,
    pub(crate) record: Arc<Record>,
    listener: Arc<Slot>,
    accepting: AbortHandle,
}

/// The listener, until the server is dropped. Shared with the task that accepts, because a task
/// that is aborted ends at some later time.
type Slot = Mutex<Option<TcpListener>>;

impl LoopbackServer {
    /// Starts to listen.
    pub(crate) async fn start(
        handler: impl Fn(&RecordedRequest) -> Plan + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let listener = Arc::new(Mutex::new(Some(listener)));
        let record = Arc::default();
        let accepting =
            tokio::spawn(accept(Arc::clone(&listener), Arc::clone(&record), Arc::new(handler)));
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

async fn accept(listener: Arc<Slot>, record: Arc<Record>, handler: Arc<Handler>) {
    // Aborts the connections when this task ends.
    let mut connections = JoinSet::new();
    loop {
        let accepted = poll_fn(|cx| {
            // Finished connections leave the set.
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            match &*lock(&listener) {
                Some(listener) => listener.poll_accept(cx).map(Some),
                None => Poll::Ready(None),
            }
        })
        .await;
        match accepted {
            Some(Ok((stream, _))) => {
                record.count(|counts| counts.connections += 1);
                let serving = serve(stream, Arc::clone(&record), Arc::clone(&handler));
                connections.spawn(serving);
            }
            // A connection that broke before it was accepted.
            Some(Err(_)) => {}
            None => return,
        }
    }
}

async fn serve(stream: TcpStream, record: Arc<Record>, handler: Arc<Handler>) {
    // Small chunks are to arrive when they are sent.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, Arc::clone(&record), Arc::clone(&handler)));
    // Fails when a client goes away or a script aborts, which both are seen elsewhere.
    let _ = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    record: Arc<Record>,
    handler: Arc<Handler>,
) -> io::Result<Response<Body>> {
    let (head, incoming) = request.into_parts();
    let received = incoming.collect().await.map_err(io::Error::other)?;
    let request = RecordedRequest::new(&head, &received.to_bytes());
    let mut in_flight = InFlight::new(Arc::clone(&record));
    let plan = record.requested(request, |request| handler(request));
    if let Some(mut gate) = plan.gate {
        // Fails when nobody is left to open it: the server is gone.
        let _ = gate.wait_for(|is_open| *is_open).await;
    }
    if !plan.delay.is_zero() {
        tokio::time::sleep(plan.delay).await;
    }
    match plan.answer {
        Answer::Respond { status, headers, body: steps } => {
            let mut response = Response::new(body(steps, in_flight));
            *response.status_mut() =
                http::StatusCode::from_u16(status).map_err(io::Error::other)?;
            for (name, value) in headers {
                let name: HeaderName = name.parse().map_err(io::Error::other)?;
                let value: HeaderValue = value.parse().map_err(io::Error::other)?;
                response.headers_mut().append(name, value);
            }
            Ok(response)
        }
        Answer::Close => {
            in_flight.done();
            Err(io::Error::other("the script closes the connection here"))
        }
        Answer::Hang => pending().await,
    }
}
