//! The server: which requests it takes, and its script.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::check::{check_request, check_version};
use super::error::ApiError;
use super::plan::{Call, plan_api_error, plan_reply};
use crate::loopback::{LoopbackServer, Plan, RecordedRequest, ServerReply, Wire};
use crate::queue::Queue;
use crate::script::Asked;

/// Anthropic's Messages API on the loopback interface: `POST {url}/v1/messages`, answered from a
/// script.
///
/// A request that the vendor would refuse is refused in the vendor's form and uses up no reply:
/// a wrong key, a missing header, an unknown field, a tool call without a result
/// ([`check_request`] has the rules for the body). Every other request gets the next reply, as
/// JSON or, when it has `"stream": true`, as server-sent events. A request after the last reply
/// gets a 400 that says so.
///
/// A [`Reply`](crate::Reply) that breaks after so many events counts those on the wire, pings
/// included. An error becomes the HTTP status and body from which a provider makes it again; a
/// network error closes the connection.
///
/// It needs a tokio runtime, of any flavour. Dropping it closes its port. Delays are tokio's: under
/// a paused clock they pass as soon as everyone waits.
///
/// # Example
///
/// ```
/// use neuron_testing::{AnthropicServer, Reply};
/// use neuron_types::ProviderError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = AnthropicServer::start([
///     Reply::error(ProviderError::ServiceUnavailable("Overloaded".into())),
///     Reply::text("hello").chunk_chars(2),
/// ])
/// .await?;
///
/// // Give `server.url()` and `AnthropicServer::API_KEY` to a provider, run what is to be tested,
/// // then look at what arrived.
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// assert!(server.bodies().is_empty());
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AnthropicServer {
    server: LoopbackServer,
    script: Arc<Queue<ServerReply>>,
}

impl AnthropicServer {
    /// The key that a server accepts unless it is told another.
    pub const API_KEY: &'static str = "test-key";

    /// Starts a server with this script and every default.
    ///
    /// # Errors
    ///
    /// Those of opening a port.
    pub async fn start(
        replies: impl IntoIterator<Item = impl Into<ServerReply>>,
    ) -> io::Result<Self> {
        Self::builder().start(replies).await
    }

    /// Sets a server up.
    pub fn builder() -> AnthropicServerBuilder {
        AnthropicServerBuilder::default()
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

    /// Returns every request so far, in order, those that were refused included.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Returns the bodies of the requests so far; `null` for one that is no JSON.
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
        self.server.connections()
    }

    /// Returns how many answers were not finished because the client closed the connection.
    #[must_use]
    pub fn disconnects(&self) -> usize {
        self.server.disconnects()
    }

    /// Waits until a client has closed its connection before its answer was finished; at once if
    /// one has already.
    pub async fn wait_for_disconnect(&self) {
        self.server.wait_for_disconnect().await;
    }

    /// Waits until there were so many requests; at once if there were already.
    pub async fn wait_for_requests(&self, count: usize) {
        self.server.wait_for_requests(count).await;
    }
}

/// Sets an [`AnthropicServer`] up.
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
pub struct AnthropicServerBuilder {
    rules: Rules,
}

impl AnthropicServerBuilder {
    /// Sets the only key that is accepted.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.rules.api_key = key.into();
        self
    }

    /// Sets the models that exist. Unless it is called, every model does.
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rules.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// Sets how the bytes of every answer are written and cut, where a reply sets nothing else.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.rules.wire = wire;
        self
    }

    /// Starts the server with this script.
    ///
    /// # Errors
    ///
    /// Those of opening a port.
    pub async fn start(
        self,
        replies: impl IntoIterator<Item = impl Into<ServerReply>>,
    ) -> io::Result<AnthropicServer> {
        let script = Arc::new(Queue::new(replies.into_iter().map(Into::into)));
        let replies = Arc::clone(&script);
        let rules = self.rules;
        let count = AtomicUsize::new(1);
        let server = LoopbackServer::start(move |request| {
            let request_id = format!("req_{}", count.fetch_add(1, Ordering::Relaxed));
            rules.answer(request, &replies, &request_id).unwrap_or_else(|error| {
                plan_api_error(&error, Vec::new(), &request_id, &Wire::default())
            })
        })
        .await?;
        Ok(AnthropicServer { server, script })
    }
}

impl Default for AnthropicServerBuilder {
    fn default() -> Self {
        Self {
            rules: Rules {
                api_key: AnthropicServer::API_KEY.to_owned(),
                models: None,
                wire: Wire::default(),
            },
        }
    }
}

/// Leaves the key out.
impl std::fmt::Debug for AnthropicServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnthropicServerBuilder")
            .field("models", &self.rules.models)
            .field("wire", &self.rules.wire)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Rules {
    api_key: String,
    /// `None` means any.
    models: Option<Vec<String>>,
    wire: Wire,
}

impl Rules {
    fn answer(
        &self,
        request: &RecordedRequest,
        script: &Queue<ServerReply>,
        request_id: &str,
    ) -> Result<Plan, ApiError> {
        let body = self.check(request)?;
        let (call, reply) = script.take().map_err(|exhausted| {
            let last = body.pointer("/messages").and_then(Value::as_array);
            let last = last.and_then(|messages| messages.last());
            let last = last.map(Value::to_string).unwrap_or_default();
            ApiError::invalid_request(format!("{exhausted}; its last message is {last}"))
        })?;
        let model = body.get("model").and_then(Value::as_str);
        let asked =
            Asked { call, model: model.unwrap_or_default(), prompt_chars: request.body.len() };
        let call = Call {
            asked,
            stream: body.get("stream").and_then(Value::as_bool) == Some(true),
            request_id,
            wire: &self.wire,
        };
        Ok(plan_reply(reply, &call))
    }

    /// Refuses what the vendor refuses, in the vendor's order, and gives the body.
    fn check<'a>(&self, request: &'a RecordedRequest) -> Result<&'a Value, ApiError> {
        if request.method != "POST" || request.path != "/v1/messages" {
            return Err(ApiError::new(404, "not_found_error", "Not Found"));
        }
        if request.body.len() > MAX_BODY {
            let message = "Request exceeds the maximum size";
            return Err(ApiError::new(413, "request_too_large", message));
        }
        self.check_key(request)?;
        let Some(version) = request.header("anthropic-version") else {
            let message = "anthropic-version: header is required";
            return Err(ApiError::invalid_request(message));
        };
        let Some(body) = &request.json else {
            let message = "The request body is not valid JSON";
            return Err(ApiError::invalid_request(message));
        };
        check_version(body, version)?;
        check_request(body, &betas(request))?;
        let model = body.get("model").and_then(Value::as_str);
        match (&self.models, model) {
            (Some(models), Some(model)) if !models.iter().any(|known| known == model) => {
                Err(ApiError::new(404, "not_found_error", format!("model: {model}")))
            }
            _ => Ok(body),
        }
    }

    /// The vendor prefers `x-api-key` where both are sent.
    fn check_key(&self, request: &RecordedRequest) -> Result<(), ApiError> {
        let bearer = request.header("authorization");
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let message = match request.header("x-api-key").or(bearer) {
            Some(key) if key == self.api_key => return Ok(()),
            Some(_) => "invalid x-api-key",
            None => "x-api-key header is required",
        };
        Err(ApiError::new(401, "authentication_error", message))
    }
}

/// The vendor's limit on a body.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// The names in all `anthropic-beta` headers.
fn betas(request: &RecordedRequest) -> Vec<&str> {
    request
        .headers
        .iter()
        .filter(|(name, _)| name == "anthropic-beta")
        .flat_map(|(_, value)| value.split(','))
        .map(str::trim)
        .collect()
}
