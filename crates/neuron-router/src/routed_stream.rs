//! The stream that the caller of a router receives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use neuron_model::{AnswerMetadata, AnswerRoute, ProviderError, StreamEvent};
use tracing::Span;

use crate::call::record_failure;
use crate::open_stream::OpenStream;
use crate::shared::Shared;

/// The events of the route that answers, with the route in the metadata of the message.
pub(crate) struct RoutedStream {
    stream: OpenStream,
    shared: Arc<Shared>,
    /// Index of the route.
    index: usize,
    metadata: AnswerMetadata,
    /// Set after the complete message.
    is_complete: bool,
    /// The span of the route. It ends with the stream.
    span: Option<Span>,
}

impl RoutedStream {
    pub(crate) fn new(
        stream: OpenStream,
        shared: Arc<Shared>,
        index: usize,
        route: AnswerRoute,
        span: Span,
    ) -> Self {
        let mut metadata = AnswerMetadata::default();
        metadata.route = Some(route);
        Self { stream, shared, index, metadata, is_complete: false, span: Some(span) }
    }

    /// Ends the span of the route. If the stream broke, pauses the route, so that a retry prefers another route.
    fn end(&mut self, error: Option<&ProviderError>) {
        let Some(span) = self.span.take() else {
            return;
        };
        if let Some(error) = error {
            record_failure(&span, error);
            let route = self.metadata.route.as_ref().map(|route| &*route.name);
            span.in_scope(|| tracing::warn!(route, error.kind = error.kind(), "a stream broke"));
            self.shared.failed(self.index, error);
        }
    }
}

impl Stream for RoutedStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let this = &mut *self;
        let stream = Pin::new(&mut this.stream);
        let mut event = ready!(match &this.span {
            Some(span) => span.in_scope(|| stream.poll_next(cx)),
            None => stream.poll_next(cx),
        });
        match &mut event {
            Some(StreamEvent::MessageComplete(message)) => {
                message.add_metadata(&this.metadata);
                this.is_complete = true;
            }
            Some(StreamEvent::ResponseComplete(response)) => {
                response.message.add_metadata(&this.metadata);
                this.end(None);
            }
            Some(StreamEvent::Error(error)) => {
                let error = error.clone().into();
                this.end(Some(&error));
            }
            None if this.is_complete => this.end(None),
            None => {
                let text = "the stream ended before the answer was complete";
                this.end(Some(&ProviderError::StreamError(text.into())));
            }
            Some(_) => {}
        }
        Poll::Ready(event)
    }
}
