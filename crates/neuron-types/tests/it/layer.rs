//! Tests of layers around a model call. They check the order of layers, the sinks, and buffered deltas.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use neuron_types::{
    BoxedLayer, BufferedDeltas, CompletionResponse, DeltaSink, LoopError, Message, ModelCall,
    ModelEndpoint, ModelLayer, ModelNext, ModelResponseFuture, ProviderError, RequestRef, RunView,
    StopReason, StreamEvent, TakeBack, TokenUsage,
};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl DeltaSink for Log {
    fn poll_send(&self, _: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        if let Some(event) = event.take() {
            self.push(match event {
                StreamEvent::TextDelta(text) => text,
                event => format!("{event:?}").split(' ').next().unwrap().to_owned(),
            });
        }
        Poll::Ready(())
    }
}

/// A model endpoint that logs its calls. The second field is the number of calls that fail before a call succeeds.
struct Endpoint(Log, Mutex<usize>);

impl ModelEndpoint for Endpoint {
    fn make<'a>(
        &'a self,
        call: ModelCall<'a>,
        sink: Option<&'a dyn DeltaSink>,
    ) -> ModelResponseFuture<'a> {
        Box::pin(async move {
            self.0.push(format!("call {}", call.request.model));
            if let Some(sink) = sink {
                sink.send(StreamEvent::TextDelta("hi".into())).await;
            }
            let mut failures = self.1.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(ProviderError::ServiceUnavailable("busy".into()).into());
            }
            Ok(CompletionResponse {
                id: String::new(),
                model: String::new(),
                message: Message::assistant("hi"),
                usage: TokenUsage::default(),
                stop_reason: StopReason::EndTurn,
            })
        })
    }

    fn take_back(&self, what: TakeBack) {
        self.0.push(format!("take back {what:?}"));
    }
}

/// A layer that logs its name when a call starts and ends.
struct Named(&'static str, Log);

impl ModelLayer for Named {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        self.1.push(format!("{} in", self.0));
        let request = RequestRef { model: self.0, ..call.request };
        let answer = next.run(call.with_request(request)).await;
        self.1.push(format!("{} out", self.0));
        answer
    }
}

/// A layer that holds back the deltas of a response until the response is complete. It retries a failed call once.
struct BufferAndRetry;

impl ModelLayer for BufferAndRetry {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let held = next.sink().map(BufferedDeltas::new);
        let inner = held.as_ref().map_or(next, |held| next.with_sink(held));
        let answer = match inner.run(call).await {
            Err(LoopError::Provider(error)) => {
                let error = error.into();
                if let Some(sink) = inner.sink() {
                    sink.send(StreamEvent::Reset { attempt: 2, error }).await;
                }
                inner.run(call).await?
            }
            answer => answer?,
        };
        if let Some(held) = held {
            held.release().await;
        }
        Ok(answer)
    }
}

/// A layer that removes the new input from the conversation and rejects each call, without calling the model.
struct RejectInput;

impl ModelLayer for RejectInput {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        next.take_back_input(true);
        Err(call.rejected("no", true))
    }
}

async fn run(layers: &[BoxedLayer], failures: usize, tool_calls: usize) -> (Vec<String>, String) {
    let (log, usage, token) = (Log::default(), TokenUsage::default(), CancellationToken::new());
    let endpoint = Endpoint(log.clone(), Mutex::new(failures));
    let run = RunView::new(0, tool_calls, &usage, &[]);
    let call = ModelCall::new(RequestRef::default(), run, &token);
    let answer = ModelNext::new(layers, &endpoint, Some(&log)).run(call).await;
    let answer = answer.map_or_else(|error| error.to_string(), |answer| answer.message.text());
    (log.lines(), answer)
}

#[tokio::test]
async fn first_layer_is_outermost_and_innermost_request_is_sent() {
    let log = Log::default();
    let layers = ["a", "b"].map(|name| BoxedLayer::new(Named(name, log.clone())));
    assert_eq!(run(&layers, 0, 0).await, (vec!["call b".into(), "hi".into()], "hi".into()));
    assert_eq!(log.lines(), ["a in", "b in", "b out", "a out"]);
    assert_eq!(run(&[], 0, 0).await.1, "hi");
}

#[tokio::test]
async fn buffered_text_is_sent_once_and_text_of_a_broken_call_never() {
    let (lines, answer) = run(&[BoxedLayer::new(BufferAndRetry)], 1, 0).await;
    assert_eq!(lines, ["call ", "Reset", "call ", "hi"]);
    assert_eq!(answer, "hi");
}

#[tokio::test]
async fn rejection_reports_earlier_tool_calls() {
    for (tool_calls, ran) in [
        (0, ""),
        (
            1,
            " (before that, 1 tool call ran; the latest results are removed from the conversation)",
        ),
        (
            2,
            " (before that, 2 tool calls ran; the latest results are removed from the conversation)",
        ),
    ] {
        let (lines, answer) = run(&[BoxedLayer::new(RejectInput)], 0, tool_calls).await;
        assert_eq!(lines, ["take back Input { with_tool_results: true }"]);
        assert_eq!(answer, format!("terminated by hook: no{ran}"));
    }
}
