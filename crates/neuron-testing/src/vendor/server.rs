//! The server of a vendor, its script and its settings.

use std::fmt;
use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::plan::Desk;
use super::{Rules, Vendor};
use crate::loopback::{LoopbackServer, RecordedRequest, ServerReply, Wire};
use crate::queue::Queue;

/// A server that emulates a vendor's API on the loopback interface and sends scripted replies.
///
/// A request that the vendor would reject gets an error in the vendor's format, and takes no reply from the script. An
/// accepted request gets the next reply, as a stream if the request asks for a stream. A request after the last reply
/// gets an error.
///
/// A [`Reply`](crate::Reply) may break after a number of events. This number counts every event on the wire. A reply
/// with an error is sent as the HTTP status and the body that a provider converts to this error. A reply with
/// [`ProviderError::Network`](neuron_types::ProviderError::Network) closes the connection.
///
/// The server needs a tokio runtime of any flavour. Dropping the server closes its port. Delays use tokio's clock. If a
/// test pauses this clock, a delay ends as soon as all tasks wait.
///
/// [`AnthropicServer`](crate::AnthropicServer) has an example.
pub struct VendorServer<V> {
    server: LoopbackServer,
    script: Arc<Queue<ServerReply>>,
    vendor: Arc<V>,
}

impl<V: Vendor> VendorServer<V> {
    /// The key that a server accepts by default. The Ollama server needs no key by default.
    pub const API_KEY: &'static str = "test-key";

    /// Starts a server with the script `replies` and the default settings.
    ///
    /// The server rejects a request whose key is not [`API_KEY`](Self::API_KEY), unless the vendor requires no key. An
    /// empty script needs a type, for example `Vec::<Reply>::new()`.
    ///
    /// # Errors
    ///
    /// Returns an error if no port can be opened.
    pub async fn start(
        replies: impl IntoIterator<Item = impl Into<ServerReply>>,
    ) -> io::Result<Self>
    where
        V: Default,
    {
        Self::builder().start(replies).await
    }

    /// Returns a builder that sets the key, the models and the encoding of a server.
    pub fn builder() -> VendorServerBuilder<V>
    where
        V: Default,
    {
        VendorServerBuilder::new(V::default())
    }

    /// Returns the vendor that the server emulates.
    #[must_use]
    pub fn vendor(&self) -> &V {
        &self.vendor
    }

    /// Returns the base URL of the server, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: impl Into<ServerReply>) {
        self.script.push(reply.into());
    }

    /// Returns all requests that the server received, in order. Includes rejected requests.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.record.requests()
    }

    /// Returns the JSON bodies of all requests that the server received, in order. A body that is not JSON becomes
    /// `null`.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.requests().into_iter();
        requests.map(|request| request.json.unwrap_or_default()).collect()
    }

    /// Returns the number of replies that are not used yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.script.remaining()
    }

    /// Asserts that every reply was used.
    ///
    /// # Panics
    ///
    /// Panics if a reply is not used yet.
    #[track_caller]
    pub fn assert_complete(&self) {
        self.script.assert_complete();
    }

    /// Returns the number of connections that clients opened since the server started.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.server.record.counts().connections
    }

    /// Returns the number of responses that were not finished because the client closed the connection.
    #[must_use]
    pub fn disconnects(&self) -> usize {
        self.server.record.counts().disconnects
    }

    /// Waits until a client closes a connection whose response is not finished. Returns immediately if
    /// [`disconnects`](Self::disconnects) is not 0.
    pub async fn wait_for_disconnect(&self) {
        self.server.record.wait_for(|counts| counts.disconnects > 0).await;
    }

    /// Waits until at least `count` requests have arrived since the server started.
    pub async fn wait_for_requests(&self, count: usize) {
        self.server.record.wait_for(|counts| counts.requests >= count).await;
    }
}

impl<V> fmt::Debug for VendorServer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VendorServer")
            .field("server", &self.server)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// A builder for a [`VendorServer`].
///
/// # Example
///
/// ```
/// use neuron_testing::{AnthropicServer, Wire};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = AnthropicServer::builder()
///     .api_key("another-key")
///     .models(["claude-sonnet-4-6"])
///     .wire(Wire::default().split_every(1).crlf())
///     .start(["hello"])
///     .await?;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct VendorServerBuilder<V> {
    pub(crate) vendor: V,
    rules: Rules,
    wire: Wire,
    /// Number of requests that must arrive before the first response.
    gather: usize,
}

impl<V: Vendor> VendorServerBuilder<V> {
    /// Creates a builder for a server that emulates `vendor`.
    pub fn new(vendor: V) -> Self {
        let api_key = V::NEEDS_KEY.then(|| VendorServer::<V>::API_KEY.to_owned());
        Self { vendor, rules: Rules { api_key, models: None }, wire: Wire::default(), gather: 0 }
    }

    /// Sets the key that requests must have. Default: [`VendorServer::API_KEY`], or no key if the vendor requires none.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.rules.api_key = Some(key.into());
        self
    }

    /// Sets the names of the models that exist. By default every model exists.
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rules.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// Sets how the bytes of every scripted response are encoded, split and cut. [`ServerReply::over`] overrides this
    /// setting for one reply.
    pub fn wire(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Delays all responses until `requests` requests have arrived. These requests are then in progress at the same
    /// time. Default: no response is delayed.
    ///
    /// Rejected requests are counted and delayed too.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_testing::AnthropicServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// // A client that sends one request after another waits forever.
    /// let server = AnthropicServer::builder().gather(2).start(["one", "two"]).await?;
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gather(self, requests: usize) -> Self {
        Self { gather: requests, ..self }
    }

    /// Starts the server with the script `replies`.
    ///
    /// # Errors
    ///
    /// Returns an error if no port can be opened.
    pub async fn start(
        self,
        replies: impl IntoIterator<Item = impl Into<ServerReply>>,
    ) -> io::Result<VendorServer<V>> {
        let Self { vendor, rules, wire, gather } = self;
        let vendor = Arc::new(vendor);
        let script = Arc::new(Queue::new(replies.into_iter().map(Into::into)));
        let desk = Desk { vendor: Arc::clone(&vendor), script: Arc::clone(&script), rules, wire };
        let server = LoopbackServer::start(gather, move |number, request| {
            desk.plan(request, &format!("req_{number}"))
        })
        .await?;
        Ok(VendorServer { server, script, vendor })
    }
}

impl<V: Vendor + Default> Default for VendorServerBuilder<V> {
    fn default() -> Self {
        Self::new(V::default())
    }
}

/// Prints the settings without the key.
impl<V> fmt::Debug for VendorServerBuilder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VendorServerBuilder")
            .field("rules", &self.rules)
            .field("wire", &self.wire)
            .field("gather", &self.gather)
            .finish_non_exhaustive()
    }
}
