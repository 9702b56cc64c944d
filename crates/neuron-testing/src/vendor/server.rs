//! The server of a vendor, its script and its settings.

use std::fmt;
use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::plan::Desk;
use super::{Rules, Vendor};
use crate::loopback::{LoopbackServer, RecordedRequest, ServerReply, Wire};
use crate::queue::Queue;

/// A vendor's API on the loopback interface, answered from a script.
///
/// A request that the vendor would refuse is refused in the vendor's form and uses up no reply.
/// Every other request gets the next reply, in one piece or as a stream, as it asks. A request
/// after the last reply is refused with a text that says so.
///
/// A [`Reply`](crate::Reply) that breaks after so many events counts those on the wire, whatever
/// they are. An error becomes the HTTP status and body from which a provider makes it again; a
/// network error closes the connection.
///
/// It needs a tokio runtime, of any flavour. Dropping it closes its port. Delays are tokio's: under
/// a paused clock they pass as soon as everyone waits.
///
/// [`AnthropicServer`](crate::AnthropicServer) has an example.
pub struct VendorServer<V> {
    server: LoopbackServer,
    script: Arc<Queue<ServerReply>>,
    vendor: Arc<V>,
}

impl<V: Vendor> VendorServer<V> {
    /// The key that a server accepts unless it is told another. Ollama's needs none then.
    pub const API_KEY: &'static str = "test-key";

    /// Starts a server with this script and every default.
    ///
    /// # Errors
    ///
    /// Those of opening a port.
    pub async fn start(
        replies: impl IntoIterator<Item = impl Into<ServerReply>>,
    ) -> io::Result<Self>
    where
        V: Default,
    {
        Self::builder().start(replies).await
    }

    /// Sets a server up.
    pub fn builder() -> VendorServerBuilder<V>
    where
        V: Default,
    {
        VendorServerBuilder::new(V::default())
    }

    /// Returns the vendor that is played.
    #[must_use]
    pub fn vendor(&self) -> &V {
        &self.vendor
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Adds a reply at the script's end.
    pub fn push(&self, reply: impl Into<ServerReply>) {
        self.script.push(reply.into());
    }

    /// Returns every request so far, in order, refused requests included.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.record.requests()
    }

    /// Returns the bodies of the requests so far. A body that is no JSON is `null`.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.requests().into_iter();
        requests.map(|request| request.json.unwrap_or_default()).collect()
    }

    /// Returns how many replies are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.script.remaining()
    }

    /// Asserts that every reply was used.
    ///
    /// # Panics
    ///
    /// When replies are left.
    #[track_caller]
    pub fn assert_complete(&self) {
        self.script.assert_complete();
    }

    /// Returns how many connections clients opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.server.record.counts().connections
    }

    /// Returns how many answers were not finished because the client closed the connection.
    #[must_use]
    pub fn disconnects(&self) -> usize {
        self.server.record.counts().disconnects
    }

    /// Waits until a client has closed its connection before its answer was finished; at once if
    /// one has already.
    pub async fn wait_for_disconnect(&self) {
        self.server.record.wait_for(|counts| counts.disconnects > 0).await;
    }

    /// Waits until there were this many requests. Returns at once if there were already.
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

/// Sets a [`VendorServer`] up.
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
    /// The number of requests before the first response.
    gather: usize,
}

impl<V: Vendor> VendorServerBuilder<V> {
    /// Sets up a server that plays this vendor.
    pub fn new(vendor: V) -> Self {
        let api_key = V::NEEDS_KEY.then(|| VendorServer::<V>::API_KEY.to_owned());
        Self { vendor, rules: Rules { api_key, models: None }, wire: Wire::default(), gather: 0 }
    }

    /// Sets the only key that is accepted.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.rules.api_key = Some(key.into());
        self
    }

    /// Sets the models that exist. Unless it is called, every model does.
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rules.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// Sets how the bytes of every answer are written and cut, where a reply sets nothing else.
    pub fn wire(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Holds every answer back until there were so many requests: then all of them are under way at
    /// the same time. Default: none is held back.
    ///
    /// Requests that are refused count, and wait as well.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_testing::AnthropicServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// // Whoever asks one after another waits for ever.
    /// let server = AnthropicServer::builder().gather(2).start(["one", "two"]).await?;
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gather(self, requests: usize) -> Self {
        Self { gather: requests, ..self }
    }

    /// Starts the server with this script.
    ///
    /// # Errors
    ///
    /// Those of opening a port.
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

/// Leaves the key out.
impl<V> fmt::Debug for VendorServerBuilder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VendorServerBuilder")
            .field("rules", &self.rules)
            .field("wire", &self.wire)
            .field("gather", &self.gather)
            .finish_non_exhaustive()
    }
}
