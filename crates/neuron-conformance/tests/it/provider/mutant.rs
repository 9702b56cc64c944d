//! A provider for Anthropic's API that can be broken in one way.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_provider_anthropic::Anthropic;
use neuron_testing::anthropic::AnthropicApi;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError,
    RequestRef, Role, StopReason, StreamEvent, StreamHandle, StreamReceiver, TokenUsage, ToolCall,
};
use serde_json::{Value, json};

/// The way in which the provider is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    LosesLastDelta,
    ShortensStreams,
    TrimsText,
    EndsTwice,
    UsageLast,
    ByValueIsAnother,
    MergesCalls,
    SortsArguments,
    RunsInvalidCalls,
    EmptiesInvalidCalls,
    LosesToolUseEnd,
    RenamesCalls,
    DropsThinking,
    ForgetsThinking,
    ForgetsSignatures,
    DropsMedia,
    DropsSchemas,
    DropsToolChoice,
    DropsSystem,
    CountsRequests,
    ChangesTheBeginning,
    RotatesTools,
    SwallowsUsage,
    SwallowsUsageOfStreams,
    CountsCacheTwice,
    AlwaysEndsWell,
    HidesMaxTokens,
    DropsRetryAfter,
    QuotaIsRateLimit,
    DropsErrorTexts,
    EveryErrorIsOther,
    StreamErrorsAreOne,
    EndsAtErrors,
    ShowsKey,
    ShowsKeyInErrors,
    EndsEarly,
    SurvivesBreaks,
    BreaksAreRetryable,
    GoesOnWithoutReader,
    MixesAnswers,
    ReadsAhead,
    ConnectsAnew,
    HidesServer,
    BreaksAreFinal,
    FollowsRedirects,
    ShowsPages,
    NeverTimesOut,
    LimitsStreams,
    CorrectsKeys,
    BuffersStreams,
    UsesProxy,
    NeedsRuntime,
}

use Mutation as M;

pub(crate) struct Harness(pub(crate) Mutation);

impl ProviderHarness for Harness {
    type Provider = Mutant;
    type Vendor = AnthropicApi;

    fn vendor(&self) -> AnthropicApi {
        AnthropicApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Mutant {
        let proxy = std::env::var("http_proxy").ok().filter(|_| self.0 == M::UsesProxy);
        let key = match self.0 {
            M::CorrectsKeys => api_key.replace(char::is_control, ""),
            _ => api_key.to_owned(),
        };
        let url = proxy.unwrap_or_else(|| url.to_owned());
        Mutant {
            inner: Anthropic::new(key).base_url(&url),
            url,
            whole: Duration::MAX,
            mutation: self.0,
            key: api_key.to_owned(),
            requests: AtomicUsize::new(0),
            last_text: Mutex::default(),
        }
    }

    fn provider_with_timeouts(&self, url: &str, key: &str, timeouts: Timeouts) -> Option<Mutant> {
        let mut mutant = self.provider(url, key);
        let Timeouts { connect, whole, idle } = match self.0 {
            M::NeverTimesOut => Timeouts { whole: Duration::MAX, ..timeouts },
            _ => timeouts,
        };
        mutant.inner = mutant.inner.connect_timeout(connect).timeout(whole).idle_timeout(idle);
        mutant.whole = timeouts.whole;
        Some(mutant)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            request_id_header: Some("request-id"),
            // `message_stop` has no content, and follows the event with the stop reason.
            optional_frames: 1,
            ..Capabilities::default()
                .without_stop_reasons(&[StopReason::ContentFilter])
                .without_errors(&["ModelLoading"])
        }
    }
}

pub(crate) struct Mutant {
    inner: Anthropic,
    url: String,
    /// The provider's time limit for a whole response. The test harness sets this limit.
    whole: Duration,
    mutation: Mutation,
    key: String,
    requests: AtomicUsize,
    last_text: Mutex<Option<String>>,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.mutation == M::ShowsKey { &self.key } else { "[redacted]" };
        f.debug_struct("Mutant").field("key", &key).finish_non_exhaustive()
    }
}

impl Provider for Mutant {
    async fn complete(
        &self,
        mut request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        if self.mutation == M::ByValueIsAnother {
            request.max_tokens = Some(1);
        }
        self.complete_ref(request.view()).await
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        let request = self.request(request.to_request());
        let answer = match self.mutation {
            M::GoesOnWithoutReader => detached(self.inner.clone(), request).await,
            M::ConnectsAnew => self.at(&self.url).complete(request).await,
            M::FollowsRedirects => match self.inner.complete(request.clone()).await {
                Err(error) if error.to_string().contains("redirected to ") => {
                    let text = error.to_string();
                    let (_, location) = text.split_once("redirected to ").unwrap();
                    self.at(location.split(',').next().unwrap()).complete(request).await
                }
                answer => answer,
            },
            M::NeedsRuntime => {
                tokio::runtime::Handle::current();
                self.inner.complete(request).await
            }
            _ => self.inner.complete(request).await,
        };
        match answer {
            Ok(response) => Ok(self.response(response)),
            Err(error) => Err(self.error(error)),
        }
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let request = self.request(request.to_request());
        let handle = self.inner.complete_stream(request).await;
        let handle = handle.map_err(|error| self.error(error))?;
        match self.mutation {
            M::None => return Ok(handle),
            M::ReadsAhead => return Ok(read_ahead(handle)),
            M::LimitsStreams => {
                let limited = handle.receiver.take_until(tokio::time::sleep(self.whole));
                return Ok(StreamReceiver::new(limited).into());
            }
            _ => {}
        }
        let events = self.events(handle.receiver.collect().await);
        Ok(StreamReceiver::new(stream::iter(events)).into())
    }
}

/// Reads a stream in a separate task, which does not wait for the reader of the returned stream.
fn read_ahead(mut handle: StreamHandle) -> StreamHandle {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = handle.receiver.recv().await {
            let _ = sender.send(event);
        }
    });
    StreamReceiver::new(stream::poll_fn(move |cx| events.poll_recv(cx))).into()
}

/// Sends a request in a spawned task. Dropping the returned future does not stop the task.
async fn detached(
    provider: Anthropic,
    request: CompletionRequest,
) -> Result<CompletionResponse, ProviderError> {
    /// Pauses the clock of the test when it is dropped. A paused clock advances by itself when all tasks wait.
    struct PauseOnDrop;
    impl Drop for PauseOnDrop {
        fn drop(&mut self) {
            tokio::time::pause();
        }
    }
    let _pause = PauseOnDrop;
    tokio::spawn(async move { provider.complete(request).await }).await.unwrap()
}

impl Mutant {
    /// Returns a client for another server, with the same key.
    fn at(&self, url: &str) -> Anthropic {
        Anthropic::new(self.key.clone()).base_url(url)
    }

    fn request(&self, mut request: CompletionRequest) -> CompletionRequest {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        match self.mutation {
            M::ForgetsThinking => contents(&mut request.messages).for_each(|content| {
                content.retain(|block| !matches!(block, ContentBlock::Thinking { .. }));
            }),
            M::ForgetsSignatures => contents(&mut request.messages).flatten().for_each(|block| {
                if let ContentBlock::Thinking { signature, .. } = block {
                    *signature = "none".into();
                }
            }),
            M::DropsMedia => contents(&mut request.messages).for_each(|content| {
                content.retain(|block| !matches!(block, ContentBlock::Image { .. }));
            }),
            M::DropsSchemas => request.response_format = None,
            M::DropsToolChoice => request.tool_choice = None,
            M::DropsSystem => request.system = None,
            M::CountsRequests => {
                request.extra = Some(json!({"metadata": {"user_id": number.to_string()}}));
            }
            M::ChangesTheBeginning => {
                let text = format!("message 1 of {}", request.messages.len());
                request.messages[0].content.push(ContentBlock::Text(text));
            }
            M::RotatesTools if request.messages.len() > 1 => request.tools.rotate_left(1),
            _ => {}
        }
        request
    }

    /// Changes a response as the mutation requires, for whole responses and for streams.
    fn response(&self, mut response: CompletionResponse) -> CompletionResponse {
        let content = &mut response.message.content;
        match self.mutation {
            M::TrimsText => texts(content).for_each(|text| *text = text.trim().to_owned()),
            M::MixesAnswers => texts(content).for_each(|text| {
                let last = self.last_text.lock().unwrap().replace(text.clone());
                *text = last.unwrap_or_else(|| text.clone());
            }),
            M::MergesCalls => {
                let mut calls = 0;
                content.retain(|block| {
                    calls += usize::from(block.as_tool_use().is_some());
                    calls < 2
                });
            }
            M::SortsArguments => inputs(content).for_each(|(_, input)| {
                if let Value::Object(fields) = input {
                    let sorted: BTreeMap<_, _> = std::mem::take(fields).into_iter().collect();
                    fields.extend(sorted);
                }
            }),
            M::EmptiesInvalidCalls => inputs(content)
                .filter(|(_, input)| ToolCall::invalid_json(input).is_some())
                .for_each(|(_, input)| *input = json!({})),
            M::RenamesCalls => inputs(content).for_each(|(id, _)| id.push('x')),
            M::DropsThinking => {
                content.retain(|block| !matches!(block, ContentBlock::Thinking { .. }));
            }
            M::SwallowsUsage => response.usage = TokenUsage::default(),
            M::CountsCacheTwice => {
                response.usage.input_tokens += response.usage.cache_read_tokens.unwrap_or(0);
            }
            M::AlwaysEndsWell => response.stop_reason = StopReason::EndTurn,
            M::HidesMaxTokens if response.stop_reason == StopReason::MaxTokens => {
                response.stop_reason = StopReason::EndTurn;
            }
            _ => {}
        }
        response
    }

    fn error(&self, error: ProviderError) -> ProviderError {
        use ProviderError as E;
        match (self.mutation, error) {
            (M::DropsRetryAfter, E::RateLimit { .. })
            | (M::QuotaIsRateLimit, E::InsufficientResources(_)) => {
                E::RateLimit { retry_after: None }
            }
            (M::DropsErrorTexts, E::ServiceUnavailable(_)) => E::ServiceUnavailable("no".into()),
            (M::EveryErrorIsOther, error) => E::Other(error.into()),
            (M::HidesServer, E::Network(_)) => E::Network("it broke".into()),
            (M::BreaksAreFinal, E::Network(error)) => E::Other(error),
            (M::ShowsPages, E::ServiceUnavailable(text)) => E::ServiceUnavailable(text.repeat(10)),
            (M::ShowsKeyInErrors, E::InvalidRequest(text)) => {
                E::InvalidRequest(format!("{text} with {}", self.key))
            }
            (_, error) => error,
        }
    }

    fn events(&self, mut events: Vec<StreamEvent>) -> Vec<StreamEvent> {
        match events.pop() {
            Some(StreamEvent::ResponseComplete(response)) => {
                let mut response = self.response(*response);
                match self.mutation {
                    M::SwallowsUsageOfStreams => response.usage = TokenUsage::default(),
                    M::ShortensStreams => texts(&mut response.message.content).for_each(|text| {
                        text.pop();
                    }),
                    _ => {}
                }
                self.order(stream_of(response))
            }
            Some(StreamEvent::Error(error)) => self.broken(events, error.into()),
            other => panic!("a stream ends with {other:?}"),
        }
    }

    /// Changes the events of a correct stream as the mutation requires.
    fn order(&self, mut events: Vec<StreamEvent>) -> Vec<StreamEvent> {
        match self.mutation {
            M::LosesLastDelta => {
                let is_text = |event: &StreamEvent| matches!(event, StreamEvent::TextDelta(_));
                let last = events.iter().rposition(is_text);
                last.map(|last| events.remove(last));
            }
            M::EndsTwice => events.extend(events.last().cloned()),
            M::UsageLast => {
                let usage = events.remove(events.len() - 3);
                events.push(usage);
            }
            M::LosesToolUseEnd => {
                events.retain(|event| !matches!(event, StreamEvent::ToolUseEnd { .. }));
            }
            M::RunsInvalidCalls => {
                let Some(StreamEvent::ResponseComplete(response)) = events.last() else {
                    return events;
                };
                let calls = response.message.tool_uses();
                let invalid = calls.filter(|call| ToolCall::invalid_json(call.input).is_some());
                let run = invalid.map(|call| StreamEvent::ToolUse {
                    id: call.id.into(),
                    name: call.name.into(),
                    input: call.input.clone(),
                });
                let (at, run) = (events.len() - 3, run.collect::<Vec<_>>());
                events.splice(at..at, run);
            }
            _ => {}
        }
        events
    }

    /// Changes the end of a stream that ended with `error` as the mutation requires.
    fn broken(&self, mut events: Vec<StreamEvent>, error: ProviderError) -> Vec<StreamEvent> {
        let error = self.error(error);
        let is_break = matches!(error, ProviderError::StreamError(_));
        let is_end = error.to_string().contains("the stream ended before");
        match self.mutation {
            M::EndsAtErrors => return events,
            M::EndsEarly if is_end => return self.answer_so_far(&events),
            M::SurvivesBreaks if is_break && !is_end => return self.answer_so_far(&events),
            M::StreamErrorsAreOne => {
                let error = ProviderError::StreamError(error.to_string());
                events.push(StreamEvent::Error(error.into()));
            }
            M::BreaksAreRetryable if is_break => {
                events.push(StreamEvent::Error(ProviderError::Network(error.into()).into()));
            }
            _ => events.push(StreamEvent::Error(error.into())),
        }
        events
    }

    fn answer_so_far(&self, events: &[StreamEvent]) -> Vec<StreamEvent> {
        let texts = events.iter().filter_map(|event| match event {
            StreamEvent::TextDelta(text) => Some(text.as_str()),
            _ => None,
        });
        stream_of(CompletionResponse {
            id: "answer_1".into(),
            model: "m".into(),
            message: Message {
                role: Role::Assistant,
                content: vec![ContentBlock::Text(texts.collect())],
            },
            usage: TokenUsage::default(),
            stop_reason: StopReason::EndTurn,
        })
    }
}

fn contents(messages: &mut [Message]) -> impl Iterator<Item = &mut Vec<ContentBlock>> {
    messages.iter_mut().map(|message| &mut message.content)
}

fn texts(content: &mut [ContentBlock]) -> impl Iterator<Item = &mut String> {
    content.iter_mut().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text),
        _ => None,
    })
}

/// Returns the id and the arguments of every tool call.
fn inputs(content: &mut [ContentBlock]) -> impl Iterator<Item = (&mut String, &mut Value)> {
    content.iter_mut().filter_map(|block| match block {
        ContentBlock::ToolUse { id, input, .. } => Some((id, input)),
        _ => None,
    })
}

/// Returns the events of a correct stream for a response.
pub(crate) fn stream_of(response: CompletionResponse) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for block in &response.message.content {
        match block.clone() {
            ContentBlock::Text(text) => events.push(StreamEvent::TextDelta(text)),
            ContentBlock::Thinking { thinking, signature } => events.extend([
                StreamEvent::ThinkingDelta(thinking),
                StreamEvent::SignatureDelta(signature),
            ]),
            ContentBlock::ToolUse { id, name, input } => {
                events.push(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
                let invalid = ToolCall::invalid_json(&input);
                let delta = invalid.map_or_else(|| input.to_string(), str::to_owned);
                events.push(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
                events.push(StreamEvent::ToolUseEnd { id: id.clone() });
                if invalid.is_none() {
                    events.push(StreamEvent::ToolUse { id, name, input });
                }
            }
            // Blocks with metadata have no events of their own. They are only in the complete message.
            block if block.is_mark() => {}
            other => panic!("no answer of the suite has {other:?}"),
        }
    }
    events.push(StreamEvent::Usage(response.usage.clone()));
    events.push(StreamEvent::MessageComplete(response.message.clone()));
    events.push(StreamEvent::ResponseComplete(Box::new(response)));
    events
}
