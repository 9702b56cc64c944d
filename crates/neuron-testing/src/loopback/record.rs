//! The recorded requests of a server, and its counters.

use std::fmt;
use std::sync::Mutex;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use crate::queue::lock;

/// A request that a loopback server received.
///
/// `Debug` prints no headers, because they may contain a key.
#[derive(Clone)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The HTTP method, in upper case.
    pub method: String,
    /// The path of the URL, without the query.
    pub path: String,
    /// The query of the URL without the `?`. Empty if the URL has no query.
    pub query: String,
    /// The names and values of the headers, in the order in which they were sent. The names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// The parsed body. `None` if the body is not JSON.
    pub json: Option<Value>,
}

impl RecordedRequest {
    /// Returns the first value of the header `name`, or `None` if the request does not have the header. `name` must be
    /// in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the key of an `Authorization: Bearer` header, or `None` if there is no such header.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    pub(crate) fn new(head: &http::request::Parts, body: &Bytes) -> Self {
        let headers = head.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        });
        Self {
            method: head.method.as_str().to_owned(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            json: serde_json::from_slice(body).ok(),
            body: body.to_vec(),
        }
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("body", &String::from_utf8_lossy(&self.body))
            .finish_non_exhaustive()
    }
}

/// The recorded requests of a server, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Record {
    requests: Mutex<Vec<RecordedRequest>>,
    counts: watch::Sender<Counts>,
}

/// The number of connections, requests and disconnects of a server since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) disconnects: usize,
}

impl Record {
    /// Records a request, calls `then`, and returns its result.
    ///
    /// `then` receives the number of the request, counted from 1. No other request is recorded while `then` runs.
    pub(super) fn requested<T>(
        &self,
        request: RecordedRequest,
        then: impl FnOnce(usize, &RecordedRequest) -> T,
    ) -> T {
        let mut requests = lock(&self.requests);
        // `then` runs under the lock, so that replies are taken in the order of the request numbers.
        let result = then(requests.len() + 1, &request);
        requests.push(request);
        drop(requests);
        self.count(|counts| counts.requests += 1);
        result
    }

    pub(super) fn count(&self, event: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(event);
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.requests).clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until `wanted` returns `true` for the server's counters. `wanted` is called again after each change of a
    /// counter.
    pub(crate) async fn wait_for(&self, wanted: impl FnMut(&Counts) -> bool) {
        // Fails only if the sender was dropped, and `self` holds the sender.
        let _ = self.counts.subscribe().wait_for(wanted).await;
    }
}
