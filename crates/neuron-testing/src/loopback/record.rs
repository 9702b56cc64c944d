//! What a server remembers of its clients.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// A request that a loopback server received.
///
/// `Debug` prints no headers: a key may be among them.
#[derive(Clone)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The method, in upper case.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, without the `?`; empty when there is none.
    pub query: String,
    /// The headers, names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: Vec<u8>,
    /// The body as JSON, if it is JSON.
    pub json: Option<Value>,
}

impl RecordedRequest {
    /// Returns a header's first value. The name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the key of an `Authorization: Bearer` header.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    pub(super) fn new(head: &http::request::Parts, body: &Bytes) -> Self {
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

/// Everything that happened at a server.
#[derive(Debug, Default)]
pub(super) struct Record {
    requests: Mutex<Vec<RecordedRequest>>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) connections: usize,
    pub(super) requests: usize,
    pub(super) disconnects: usize,
}

impl Record {
    pub(super) fn connected(&self) {
        self.counts.send_modify(|counts| counts.connections += 1);
    }

    /// Records a request and does `then` before the next can be recorded.
    pub(super) fn requested<T>(
        &self,
        request: RecordedRequest,
        then: impl FnOnce(&RecordedRequest) -> T,
    ) -> T {
        let mut requests = self.lock_requests();
        let result = then(&request);
        requests.push(request);
        drop(requests);
        self.counts.send_modify(|counts| counts.requests += 1);
        result
    }

    pub(super) fn disconnected(&self) {
        self.counts.send_modify(|counts| counts.disconnects += 1);
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock_requests().clone()
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as wanted.
    pub(super) async fn wait_for(&self, wanted: impl FnMut(&Counts) -> bool) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.counts.subscribe().wait_for(wanted).await;
    }

    fn lock_requests(&self) -> MutexGuard<'_, Vec<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
