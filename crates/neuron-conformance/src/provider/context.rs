//! Where a part tries a provider: its server, its calls, and what was sent.

use futures_util::StreamExt;
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, StreamEvent,
    TokenUsage,
};
use serde_json::Value;

use super::events::check_events;
use super::meaning::Meaning;
use super::{Capabilities, ProviderHarness};
use crate::case::Case;
use neuron_testing::vendor::{Answer, Call, Rules, Vendor, VendorServer, VendorServerBuilder};
use neuron_testing::{RecordedRequest, Reply, ServerReply, Wire};

/// The key that every server takes.
pub(super) const API_KEY: &str = "sk-conformance-4c1f";

/// A provider with a server of its own.
pub(super) struct TestContext<H: ProviderHarness> {
    part: &'static str,
    pub(super) can: Capabilities,
    pub(super) server: VendorServer<H::Vendor>,
    pub(super) provider: H::Provider,
}

impl<H: ProviderHarness> TestContext<H> {
    pub(super) async fn start(harness: &H, part: &'static str) -> Self {
        let can = harness.capabilities();
        let builder = VendorServerBuilder::new(harness.vendor());
        let (builder, key) = match can.api_key {
            true => (builder.api_key(API_KEY), API_KEY),
            false => (builder, ""),
        };
        let server = match builder.start([] as [ServerReply; 0]).await {
            Ok(server) => server,
            Err(error) => Case::new("provider", part, "the server").fail(error),
        };
        let provider = harness.provider(&server.url(), key);
        Self { part, can, server, provider }
    }

    pub(super) fn case(&self, name: impl std::fmt::Display) -> Case {
        Case::new("provider", self.part, name)
    }

    /// Asks for a whole answer.
    pub(super) async fn whole(
        &self,
        case: &Case,
        request: &CompletionRequest,
        reply: impl Into<ServerReply>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.server.push(reply);
        case.soon(self.provider.complete_ref(request)).await
    }

    /// Asks for a stream and reads it to its end.
    pub(super) async fn streamed(
        &self,
        case: &Case,
        request: &CompletionRequest,
        reply: impl Into<ServerReply>,
    ) -> Result<Vec<StreamEvent>, ProviderError> {
        self.server.push(reply);
        let handle = case.soon(self.provider.complete_stream_ref(request)).await?;
        Ok(case.soon(handle.receiver.collect()).await)
    }

    /// Asks for both, which must mean the same, and returns the answer.
    pub(super) async fn both(
        &self,
        case: &Case,
        request: &CompletionRequest,
        reply: Reply,
    ) -> CompletionResponse {
        self.both_of(case, request, steady(reply).into()).await
    }

    /// [`both`](Self::both) with any reply.
    pub(super) async fn both_of(
        &self,
        case: &Case,
        request: &CompletionRequest,
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

    pub(super) fn meaning(&self, response: &CompletionResponse) -> Meaning {
        Meaning::of(response, &self.can)
    }

    /// The last request that arrived.
    pub(super) fn last_request(&self, case: &Case) -> RecordedRequest {
        case.some("nothing was sent", self.server.requests().pop())
    }

    /// The body of the last request.
    pub(super) fn last_body(&self, case: &Case) -> Value {
        case.some("the body that was sent is not JSON", self.last_request(case).json)
    }

    /// Sends a request both ways and returns both bodies.
    pub(super) async fn sent(&self, case: &Case, request: &CompletionRequest) -> [Value; 2] {
        let step = case.step("whole");
        step.ok(self.whole(&step, request, "well").await);
        let whole = self.last_body(&step);
        let step = case.step("streamed");
        let events = step.ok(self.streamed(&step, request, "well").await);
        check_events(&step, events);
        [whole, self.last_body(&step)]
    }

    /// The frames with which the server streams an answer to this request.
    pub(super) async fn frames(
        &self,
        case: &Case,
        request: &CompletionRequest,
        response: &CompletionResponse,
    ) -> Vec<Vec<u8>> {
        let events = case.ok(self.streamed(case, request, response.clone()).await);
        check_events(case, events);
        self.answering(case, response, |vendor, answer| vendor.frames(answer))
    }

    /// The body with which the server answers this request.
    pub(super) async fn body(
        &self,
        case: &Case,
        request: &CompletionRequest,
        response: &CompletionResponse,
    ) -> Vec<u8> {
        case.ok(self.whole(case, request, response.clone()).await);
        self.answering(case, response, |vendor, answer| match vendor.body(answer) {
            Ok(body) => body.to_string().into_bytes(),
            Err(_) => case.fail("the vendor has no whole answer to this request"),
        })
    }

    /// What the vendor would answer to the last request.
    fn answering<T>(
        &self,
        case: &Case,
        response: &CompletionResponse,
        write: impl FnOnce(&H::Vendor, &Answer<'_, <H::Vendor as Vendor>::Detail>) -> T,
    ) -> T {
        let vendor = self.server.vendor();
        let Ok(call) = vendor.check(&self.last_request(case), &Rules::default()) else {
            case.fail("the vendor refuses a request that it has answered")
        };
        let call: &Call<_> = &call;
        write(vendor, &Answer::new(call, response, &Wire::default()))
    }
}

/// A reply that is the same for every request.
pub(super) fn steady(reply: Reply) -> Reply {
    let usage = TokenUsage { input_tokens: 50, output_tokens: 9, ..TokenUsage::default() };
    reply.id("answer_1").model("model-of-the-answer").usage(usage)
}

/// The smallest request.
pub(super) fn ask() -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user("hello")],
        max_tokens: Some(64),
        ..CompletionRequest::default()
    }
}
