//! A provider that returns scripted responses and records its requests.

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, ProviderInfo,
    RequestRef, StreamEvent, StreamHandle, StreamReceiver,
};

use crate::Reply;
use crate::events::events;
use crate::queue::{Exhausted, Queue, lock};
use crate::script::{Asked, Cut, Pace, chars};

/// A provider that returns responses from a script.
///
/// Each call takes the next [`Reply`] when the call's future is first polled. A call after the last reply fails with
/// [`ProviderError::InvalidRequest`]. Clones share the script and the recorded requests.
///
/// The provider spawns no tasks. Responses and streams run in the futures that the caller polls. Delays use tokio's
/// clock, which a test can pause.
///
/// # Example
///
/// ```
/// use neuron_testing::{Reply, ScriptedProvider};
/// use neuron_types::{CompletionRequest, Message, Provider, ProviderError, StreamEvent};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ProviderError> {
/// let provider = ScriptedProvider::new([Reply::text("Hello there").chunk_chars(6)]);
/// let request = CompletionRequest {
///     messages: vec![Message::user("hi")],
///     ..Default::default()
/// };
///
/// let mut stream = provider.complete_stream_ref(request.view()).await?.receiver;
/// let mut deltas = Vec::new();
/// while let Some(event) = stream.recv().await {
///     if let StreamEvent::TextDelta(delta) = event {
///         deltas.push(delta);
///     }
/// }
/// assert_eq!(deltas, ["Hello ", "there"]);
/// assert_eq!(provider.requests(), [request]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedProvider {
    shared: Arc<Shared>,
    info: ProviderInfo<'static>,
}

#[derive(Debug)]
struct Shared {
    script: Queue<Reply>,
    requests: Mutex<Vec<CompletionRequest>>,
    /// Every open call and stream holds a clone, so the strong count of this `Arc` is their number plus 1.
    open: Open,
}

impl ScriptedProvider {
    /// Creates a provider that returns `replies` in order.
    pub fn new(replies: impl IntoIterator<Item = impl Into<Reply>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                script: Queue::new(replies.into_iter().map(Into::into)),
                requests: Mutex::default(),
                open: Arc::default(),
            }),
            info: ProviderInfo::new("scripted", "scripted-model"),
        }
    }

    /// Replaces the [info](Provider::info) of this provider, for example to test prices or rules of a vendor. A clone
    /// keeps its own info.
    ///
    /// The default name is `scripted`, and the default model is `scripted-model`. The default model is also the model of
    /// a response if neither the reply nor the request names one.
    #[must_use]
    pub fn with_info(self, info: ProviderInfo<'static>) -> Self {
        Self { info, ..self }
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: impl Into<Reply>) {
        self.shared.script.push(reply.into());
    }

    /// Returns all requests that the provider received, in order. Includes requests after the last reply.
    #[must_use]
    pub fn requests(&self) -> Vec<CompletionRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the number of requests that the provider received. Includes requests after the last reply.
    #[must_use]
    pub fn calls(&self) -> usize {
        lock(&self.shared.requests).len()
    }

    /// Returns the number of replies that are not used yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.shared.script.remaining()
    }

    /// Returns the number of calls and streams of this provider that are still open. A call or a stream is open until
    /// it ends or is dropped.
    ///
    /// After a cancelled run, a number above 0 means that other code still holds a call or a stream.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        Arc::strong_count(&self.shared.open) - 1
    }

    /// Asserts that every reply was used.
    ///
    /// # Panics
    ///
    /// Panics if a reply is not used yet.
    #[track_caller]
    pub fn assert_complete(&self) {
        self.shared.script.assert_complete();
    }

    /// Records the request, takes the next reply and waits for the reply's delay.
    ///
    /// Returns the response, its [`Pace`] (the delays and the break of the reply), and a handle. The call counts as
    /// open until the handle is dropped. Returns an error if the reply fails or no reply is left.
    async fn answer(
        &self,
        request: CompletionRequest,
    ) -> Result<(CompletionResponse, Pace, Open), ProviderError> {
        let open = Arc::clone(&self.shared.open);
        let (response, pace) = self.take(request)?;
        sleep(pace.delay).await;
        match response {
            Ok(response) => Ok((response, pace, open)),
            Err(cut) => Err(cut.error().await),
        }
    }

    /// Takes the next reply and records the request.
    ///
    /// The outer result is an error if no reply is left. The inner result is the response of the reply, or a [`Cut`] if
    /// the reply only fails or hangs. [`Pace`] has the delays of the reply.
    fn take(
        &self,
        request: CompletionRequest,
    ) -> Result<(Result<CompletionResponse, Cut>, Pace), ProviderError> {
        // The lock is held until the request is recorded, so that requests and replies have the same order.
        let mut requests = lock(&self.shared.requests);
        // Requests after the last reply are recorded too, so the error is returned only after the push below.
        let result = match self.shared.script.take() {
            Ok((call, reply)) => Ok(reply.resolve(Asked {
                call,
                model: match request.model.as_str() {
                    "" => self.info.default_model,
                    model => model,
                },
                prompt_chars: chars(request.messages.iter().flat_map(|it| &it.content)),
            })),
            Err(exhausted) => Err(exhausted_error(exhausted, request.messages.last())),
        };
        requests.push(request);
        result
    }
}

/// Creates a provider without replies. Add replies with [`push`](ScriptedProvider::push).
impl Default for ScriptedProvider {
    fn default() -> Self {
        Self::new([] as [Reply; 0])
    }
}

impl Provider for ScriptedProvider {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        // `_open` is held until the future ends, so that the call counts as open.
        let (response, pace, _open) = self.answer(request.to_request()).await?;
        match pace.cut {
            Some((after, cut)) if after < events(response.clone(), pace.chunk_chars).len() => {
                Err(cut.error().await)
            }
            _ => Ok(response),
        }
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let (response, pace, open) = self.answer(request.to_request()).await?;
        Ok(StreamHandle::from(stream_of(response, pace, open)))
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.info
    }
}

/// A handle that counts a call or stream as open until the handle is dropped.
type Open = Arc<()>;

/// Creates the stream of a response, with the delays of `pace`. If `pace` has a cut, the stream breaks there.
fn stream_of(response: CompletionResponse, pace: Pace, open: Open) -> StreamReceiver {
    let Pace { cut, event_delay, chunk_chars, .. } = pace;
    let mut events = events(response, chunk_chars);
    if let Some((after, _)) = &cut {
        events.truncate(*after);
    }
    let end = stream::once(async move {
        // The handle moves into this future, so the stream counts as open until it ends or is dropped.
        let _open = open;
        match cut {
            None | Some((_, Cut::End)) => None,
            Some((_, Cut::Fail(error))) => Some(StreamEvent::Error(error)),
            Some((_, Cut::Hang)) => pending().await,
        }
    });
    let events = stream::iter(events).map(Some).chain(end).filter_map(ready);
    let delayed = events.enumerate().then(move |(index, event)| async move {
        if index > 0 {
            sleep(event_delay).await;
        }
        event
    });
    // A caller may call `recv` again after the end of the stream, so the stream is fused.
    StreamReceiver::new(delayed.fuse())
}

/// Waits for `duration`. A duration of zero returns immediately, and then no tokio runtime is needed.
async fn sleep(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// Returns the error for a call after the last reply. The text quotes the last message of the request.
fn exhausted_error(exhausted: Exhausted, last: Option<&Message>) -> ProviderError {
    let last = match last {
        Some(message) => {
            let blocks: Vec<String> = message.content.iter().map(ToString::to_string).collect();
            format!("its last message is {:?}: {}", message.role, blocks.join(" "))
        }
        None => "it has no messages".to_owned(),
    };
    ProviderError::InvalidRequest(format!("{exhausted}; {last}"))
}
