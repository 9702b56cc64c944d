//! A stream that was read up to its first content.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_model::{ProviderError, StreamEvent, StreamHandle, StreamReceiver};

/// A stream that was read up to its first content.
pub(crate) struct OpenStream {
    /// Events that were read already. The last of them has content.
    held: VecDeque<StreamEvent>,
    events: StreamReceiver,
}

/// Reads a stream up to its first content.
///
/// # Errors
///
/// The error that ended the stream before. [`ProviderError::StreamError`] if the stream ended without an error.
pub(crate) async fn open(handle: StreamHandle) -> Result<OpenStream, ProviderError> {
    let (mut events, mut held) = (handle.receiver, VecDeque::new());
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::Error(error) => return Err(error.into()),
            event => {
                let has_content = has_content(&event);
                held.push_back(event);
                if has_content {
                    return Ok(OpenStream { held, events });
                }
            }
        }
    }
    Err(ProviderError::StreamError("the stream ended before the answer began".into()))
}

/// Returns `true` if a reader may have shown the event or acted upon it.
fn has_content(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::TextDelta(text)
        | StreamEvent::ThinkingDelta(text)
        | StreamEvent::SignatureDelta(text) => !text.is_empty(),
        StreamEvent::MessageComplete(_) | StreamEvent::ResponseComplete(_) => true,
        event => event.is_delta(),
    }
}

impl Stream for OpenStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        match self.held.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => Pin::new(&mut self.events).poll_next(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionResponse, Message, StopReason, StreamError, TokenUsage};

    use super::*;

    async fn first(events: Vec<StreamEvent>) -> Result<usize, String> {
        let events = StreamReceiver::new(futures_util::stream::iter(events));
        let opened = open(events.into()).await;
        opened.map(|stream| stream.held.len()).map_err(|error| format!("{error:?}"))
    }

    #[tokio::test]
    async fn stream_is_open_at_its_first_content() {
        let usage = StreamEvent::Usage(TokenUsage::default());
        let text = |text: &str| StreamEvent::TextDelta(text.into());
        let call = StreamEvent::ToolUseStart { id: "1".into(), name: "t".into() };
        let response = CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: Message::assistant(""),
            usage: TokenUsage::default(),
            stop_reason: StopReason::EndTurn,
        };
        assert_eq!(first(vec![text(""), usage.clone(), text("a"), text("b")]).await, Ok(3));
        assert_eq!(first(vec![call]).await, Ok(1));
        assert_eq!(first(vec![usage, StreamEvent::ResponseComplete(response.into())]).await, Ok(2));
    }

    #[tokio::test]
    async fn stream_that_fails_before_its_first_content_is_an_error() {
        let text = StreamEvent::TextDelta(String::new());
        let fail = |error: StreamError| vec![text.clone(), StreamEvent::Error(error)];
        let busy = ProviderError::ServiceUnavailable("busy".into());
        assert!(first(fail(busy.into())).await.unwrap_err().contains("ServiceUnavailable"));
        assert!(first(fail(StreamError::non_retryable("no"))).await.unwrap_err().contains("Other"));
        let error = first(fail(StreamError::retryable("later"))).await.unwrap_err();
        assert!(error.contains("ServiceUnavailable"));
        assert!(first(vec![text.clone()]).await.unwrap_err().contains("StreamError"));
        assert!(first(Vec::new()).await.unwrap_err().contains("StreamError"));
    }
}
