//! The server and the provider that a part of the suite uses, with methods that send requests.

use futures_util::StreamExt;
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, RequestRef,
    StopReason, StreamEvent, TokenUsage,
};
use serde_json::Value;

use super::events::{check_broken, check_events};
use super::meaning::Meaning;
use super::{Capabilities, ProviderHarness};
use crate::case::Case;
use neuron_testing::vendor::{Answer, Call, Rules, Vendor, VendorServer, VendorServerBuilder};
use neuron_testing::{RawServer, RecordedRequest, Reply, ServerReply, Wire};

/// The key that every server of the suite accepts. It has a slash because some servers escape `/` in JSON.
pub(super) const API_KEY: &str = "sk-4c1f-conformance/1";

/// The two kinds of calls of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// A call that returns a whole response.
    Whole,
    /// A call that returns a stream.
    Streamed,
}

impl Way {
    pub(super) const BOTH: [Self; 2] = [Self::Whole, Self::Streamed];

    /// Sends the request [`ask`], and returns the whole response. A stream is read to its end.
    pub(super) async fn answer(
        self,
        provider: &impl Provider,
    ) -> Result<CompletionResponse, ProviderError> {
        match self {
            Self::Whole => provider.complete_ref(ask().view()).await,
            Self::Streamed => {
                provider.complete_stream_ref(ask().view()).await?.into_response().await
            }
        }
    }

    /// Sends the request [`ask`], and waits until the provider returns a whole response or a stream handle.
    pub(super) async fn begin(self, provider: &impl Provider) -> Result<(), ProviderError> {
        match self {
            Self::Whole => provider.complete_ref(ask().view()).await.map(drop),
            Self::Streamed => provider.complete_stream_ref(ask().view()).await.map(drop),
        }
    }
}

/// The provider under test, and the loopback server that it calls, for one part of the suite.
pub(super) struct TestContext<'h, H: ProviderHarness> {
    pub(super) harness: &'h H,
    part: &'static str,
    pub(super) can: Capabilities,
    pub(super) server: VendorServer<H::Vendor>,
    pub(super) provider: H::Provider,
}

impl<'h, H: ProviderHarness> TestContext<'h, H> {
    /// Starts a server and creates a provider for it. Panics if the server cannot start.
    pub(super) async fn start(harness: &'h H, part: &'static str) -> Self {
        Self::start_with(harness, part, |builder| builder).await
    }

    /// Starts a server like [`start`](Self::start). `settings` changes the builder of the server.
    pub(super) async fn start_with(
        harness: &'h H,
        part: &'static str,
        settings: impl FnOnce(VendorServerBuilder<H::Vendor>) -> VendorServerBuilder<H::Vendor>,
    ) -> Self {
        let can = harness.capabilities();
        let builder = settings(VendorServerBuilder::new(harness.vendor()));
        let key = key(&can);
        let builder = if can.api_key { builder.api_key(key) } else { builder };
        let server = match builder.start([] as [ServerReply; 0]).await {
            Ok(server) => server,
            Err(error) => Case::new("provider", part, "the server").fail(error),
        };
        let provider = harness.provider(&server.url(), key);
        Self { harness, part, can, server, provider }
    }

    /// Starts a [`RawServer`], and creates a provider for it.
    pub(super) async fn raw(&self) -> (RawServer, H::Provider) {
        let server = RawServer::bind().await;
        let provider = self.harness.provider(&server.url(), key(&self.can));
        (server, provider)
    }

    /// Creates a [`Case`] with this name, for the panic messages of the current part of the suite.
    pub(super) fn case(&self, name: impl std::fmt::Display) -> Case {
        Case::new("provider", self.part, name)
    }

    /// Adds `reply` to the server's script, sends `request`, and returns the whole response.
    pub(super) async fn whole(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        reply: impl Into<ServerReply>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.server.push(reply);
        case.soon(self.provider.complete_ref(request)).await
    }

    /// Adds `reply` to the server's script, sends `request`, and returns all events of the stream. Returns an error if
    /// the provider returns an error instead of a stream.
    pub(super) async fn streamed(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        reply: impl Into<ServerReply>,
    ) -> Result<Vec<StreamEvent>, ProviderError> {
        self.server.push(reply);
        let handle = case.soon(self.provider.complete_stream_ref(request)).await?;
        Ok(case.soon(handle.receiver.collect()).await)
    }

    /// Requests `reply` as a whole response and as a stream. Checks that both have an equal [`Meaning`], and returns
    /// the whole response.
    pub(super) async fn both(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        reply: Reply,
    ) -> CompletionResponse {
        self.both_of(case, request, steady(reply).into()).await
    }

    /// Requests a whole response and a stream. The server sends `reply` unchanged to both requests. Checks that both
    /// responses have an equal [`Meaning`], and returns the whole response.
    pub(super) async fn both_of(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        reply: ServerReply,
    ) -> CompletionResponse {
        let step = case.step("whole");
        let whole = step.ok(self.whole(&step, request, reply.clone()).await);
        let step = case.step("streamed");
        let events = step.ok(self.streamed(&step, request, reply).await);
        let streamed = check_events(&step, events);
        let (streamed, expected) = (self.meaning(&streamed), self.meaning(&whole));
        step.equal("the answer", streamed, expected);
        whole
    }

    /// Returns the parts of a response that the suite compares.
    pub(super) fn meaning(&self, response: &CompletionResponse) -> Meaning {
        Meaning::of(response, &self.can)
    }

    /// Returns the last request that the server received. Panics if there is none.
    pub(super) fn last_request(&self, case: &Case) -> RecordedRequest {
        case.some("nothing was sent", self.server.requests().pop())
    }

    /// Returns the last two requests that the server received. After [`both`](Self::both), these are the requests for a
    /// whole response and for a stream.
    pub(super) fn last_requests(&self, case: &Case) -> [RecordedRequest; 2] {
        match &self.server.requests()[..] {
            [.., whole, streamed] => [whole.clone(), streamed.clone()],
            _ => case.fail("nothing was sent"),
        }
    }

    /// Sends a request for a whole response and for a stream, and returns both request bodies.
    pub(super) async fn sent(&self, case: &Case, request: RequestRef<'_>) -> [Value; 2] {
        self.both(case, request, Reply::text("well")).await;
        let body =
            |sent: RecordedRequest| case.some("the body that was sent is not JSON", sent.json);
        self.last_requests(case).map(body)
    }

    /// Requests a whole response and a stream, checks that both fail with this reply, and returns both errors.
    pub(super) async fn failed(
        &self,
        case: &Case,
        reply: impl Into<ServerReply>,
    ) -> [ProviderError; 2] {
        let reply = reply.into();
        let step = case.step("whole");
        let whole = step.err(self.whole(&step, ask().view(), reply.clone()).await);
        let step = case.step("streamed");
        let streamed = match self.streamed(&step, ask().view(), reply).await {
            Ok(events) => {
                let broken = check_broken(&step, events);
                step.holds(!broken.was_shown, "something was shown before the error");
                broken.error
            }
            Err(error) => error,
        };
        [whole, streamed]
    }

    /// Sends a request for a stream, and returns the encoded events that the server sent.
    pub(super) async fn frames(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        response: &CompletionResponse,
    ) -> Vec<Vec<u8>> {
        let events = case.ok(self.streamed(case, request, response.clone()).await);
        check_events(case, events);
        self.answering(case, response, |vendor, answer| vendor.frames(&answer))
    }

    /// Sends the request [`ask`] for a stream, and returns all bytes that the server sent.
    pub(super) async fn stream_bytes(&self, case: &Case, response: &CompletionResponse) -> Vec<u8> {
        self.frames(case, ask().view(), response).await.concat()
    }

    /// Sends a request for a whole response, and returns the body that the server sent.
    pub(super) async fn body(
        &self,
        case: &Case,
        request: RequestRef<'_>,
        response: &CompletionResponse,
    ) -> Vec<u8> {
        case.ok(self.whole(case, request, response.clone()).await);
        self.answering(case, response, |vendor, answer| match vendor.body(&answer) {
            Ok(body) => body.to_string().into_bytes(),
            Err(_) => case.fail("the vendor has no whole answer to this request"),
        })
    }

    /// Returns the content type of the vendor's streams.
    pub(super) fn stream_type(&self) -> &'static str {
        self.server.vendor().stream_type()
    }

    /// Encodes `response` as the answer to the last request that the server received. Calls `write` with the vendor and
    /// the answer, and returns the output of `write`.
    pub(super) fn answering<T>(
        &self,
        case: &Case,
        response: &CompletionResponse,
        write: impl FnOnce(&H::Vendor, Answer<'_, <H::Vendor as Vendor>::Detail>) -> T,
    ) -> T {
        let vendor = self.server.vendor();
        let Ok(call) = vendor.check(&self.last_request(case), &Rules::default()) else {
            case.fail("the vendor refuses a request that it has answered")
        };
        let call: &Call<_> = &call;
        write(vendor, Answer::new(call, response, &Wire::default()))
    }
}

/// Returns the key for a provider. The key is empty if the vendor has no keys.
pub(super) fn key(can: &Capabilities) -> &'static str {
    if can.api_key { API_KEY } else { "" }
}

/// Requests a whole response and a stream, checks that both calls fail, and returns both errors.
pub(super) async fn both_errors(case: &Case, provider: &impl Provider) -> [ProviderError; 2] {
    let [whole, streamed] = Way::BOTH.map(|way| way.begin(provider));
    [case.err(case.soon(whole).await), case.err(case.soon(streamed).await)]
}

/// Returns a response that contains only this text.
pub(super) fn text_answer(text: impl Into<String>) -> CompletionResponse {
    CompletionResponse {
        id: "answer_1".into(),
        model: "m".into(),
        message: Message::assistant(text.into()),
        usage: TokenUsage { input_tokens: 50, output_tokens: 9, ..TokenUsage::default() },
        stop_reason: StopReason::EndTurn,
    }
}

/// Sets the id, the model and the usage of a reply, which otherwise depend on the request.
pub(super) fn steady(reply: Reply) -> Reply {
    let usage = TokenUsage { input_tokens: 50, output_tokens: 9, ..TokenUsage::default() };
    reply.id("answer_1").model("model-of-the-answer").usage(usage)
}

/// Returns a minimal request with one user message.
pub(super) fn ask() -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user("hello")],
        max_tokens: Some(64),
        ..CompletionRequest::default()
    }
}
