//! Loopback servers of four wire formats, whose answers depend on the request alone.
//!
//! A request may reach any server, so the content of an answer cannot come from a script. The script only has the
//! faults.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_model::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, TokenUsage,
    ToolDefinition, ToolError, ToolOutput, WasmBoxedFuture,
};
use neuron_provider_anthropic::Anthropic;
use neuron_provider_ollama::Ollama;
use neuron_provider_openai::OpenAi;
use neuron_router::{Route, Router, RouterBuilder};
use neuron_testing::anthropic::AnthropicApi;
use neuron_testing::ollama::OllamaApi;
use neuron_testing::openai::OpenAiApi;
use neuron_testing::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer};
use neuron_testing::{AnthropicServer, OpenAiServer, RecordedRequest, Reply};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDyn};
use serde_json::{Value, json};

/// Number of tool calls in a run. Then the model answers with [`LAST`].
pub(crate) const TOOL_CALLS: usize = 4;
pub(crate) const LAST: &str = "All steps are done.";

/// The names of the routes, one for each wire format.
pub(crate) const NAMES: [&str; 4] = ["anthropic", "chat", "responses", "ollama"];

/// Returns the usage of the answer after this number of tool results.
pub(crate) fn usage(results: usize) -> TokenUsage {
    let (input_tokens, output_tokens) = (100 + results, 10 + results);
    TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
}

/// A vendor that answers by the number of tool results since the last question of the user.
#[derive(Default)]
pub(crate) struct ByTurn<V>(V);

impl<V: Vendor> ByTurn<V> {
    /// Replaces the content of a scripted response.
    fn response(answer: &Answer<'_, (usize, Call<V::Detail>)>) -> CompletionResponse {
        let results = answer.call.detail.0;
        let mut content = vec![ContentBlock::Text("Let me look at it. ".into())];
        let stop_reason = match results < TOOL_CALLS {
            true => {
                content.insert(
                    0,
                    ContentBlock::Thinking {
                        thinking: "The next step is missing.".into(),
                        signature: format!("signature {results}"),
                    },
                );
                let id = format!("call_{results}");
                let input = json!({ "step": results });
                content.push(ContentBlock::ToolUse { id, name: "step".into(), input });
                StopReason::ToolUse
            }
            false => {
                content = vec![ContentBlock::Text(LAST.into())];
                StopReason::EndTurn
            }
        };
        CompletionResponse {
            message: Message { role: Role::Assistant, content },
            usage: usage(results),
            stop_reason,
            ..answer.response.clone()
        }
    }
}

/// Returns the number of tool results after the last question of the user, in any of the wire formats.
fn results_in(body: &Value) -> usize {
    let messages = [&body["messages"], &body["input"]].into_iter().find_map(Value::as_array);
    let mut results = 0;
    for message in messages.into_iter().flatten() {
        let parts = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_result = |part: &&Value| part["type"] == "tool_result";
        let in_parts = parts.iter().filter(is_result).count();
        if message["role"] == "tool" || message["type"] == "function_call_output" {
            results += 1;
        } else if in_parts > 0 {
            results += in_parts;
        } else if message["role"] == "user" {
            results = 0;
        }
    }
    results
}

impl<V: Vendor> Vendor for ByTurn<V> {
    type Detail = (usize, Call<V::Detail>);
    type Error = V::Error;
    const NEEDS_KEY: bool = V::NEEDS_KEY;

    fn check(
        &self,
        request: &RecordedRequest,
        rules: &Rules,
    ) -> Result<Call<Self::Detail>, V::Error> {
        let call = self.0.check(request, rules)?;
        let results = request.json.as_ref().map(results_in).unwrap_or_default();
        Ok(Call::new(call.model.clone(), call.stream, (results, call)))
    }

    fn error(&self, error: &ProviderError) -> V::Error {
        self.0.error(error)
    }

    fn body(&self, answer: &Answer<'_, Self::Detail>) -> Result<Value, V::Error> {
        let response = Self::response(answer);
        let mut own = Answer::new(&answer.call.detail.1, &response, answer.wire);
        own.request_id = answer.request_id;
        self.0.body(&own)
    }

    fn frames(&self, answer: &Answer<'_, Self::Detail>) -> Vec<Vec<u8>> {
        let response = Self::response(answer);
        let mut own = Answer::new(&answer.call.detail.1, &response, answer.wire);
        own.request_id = answer.request_id;
        self.0.frames(&own)
    }

    fn error_reply(&self, error: &V::Error, request_id: &str) -> ErrorReply {
        self.0.error_reply(error, request_id)
    }

    fn error_frames(
        &self,
        answer: &Answer<'_, Self::Detail>,
        sent: usize,
        error: &V::Error,
    ) -> Vec<Vec<u8>> {
        let response = Self::response(answer);
        let own = Answer::new(&answer.call.detail.1, &response, answer.wire);
        self.0.error_frames(&own, sent, error)
    }

    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        self.0.headers(request_id)
    }

    fn stream_type(&self) -> &'static str {
        self.0.stream_type()
    }
}

/// The servers of all wire formats.
pub(crate) struct Servers {
    anthropic: VendorServer<ByTurn<AnthropicApi>>,
    chat: VendorServer<ByTurn<OpenAiApi>>,
    responses: VendorServer<ByTurn<OpenAiApi>>,
    ollama: VendorServer<ByTurn<OllamaApi>>,
}

impl Servers {
    /// Starts the servers. `replies` returns the script of each server, by its index in [`NAMES`].
    pub(crate) async fn start(mut replies: impl FnMut(usize) -> Vec<Reply>) -> io::Result<Self> {
        Ok(Self {
            anthropic: VendorServer::start(replies(0)).await?,
            chat: VendorServer::start(replies(1)).await?,
            responses: VendorServer::start(replies(2)).await?,
            ollama: VendorServer::start(replies(3)).await?,
        })
    }

    /// Returns a builder of a router with a route for each server. Responses and streams time out after `timeout`.
    pub(crate) fn router(&self, timeout: Duration) -> RouterBuilder {
        let anthropic = Anthropic::new(AnthropicServer::API_KEY)
            .base_url(self.anthropic.url())
            .timeout(timeout)
            .idle_timeout(timeout);
        let openai = |url: String| {
            let openai = OpenAi::new(OpenAiServer::API_KEY).base_url(url);
            openai.timeout(timeout).idle_timeout(timeout)
        };
        let ollama =
            Ollama::new().base_url(self.ollama.url()).timeout(timeout).idle_timeout(timeout);
        let [a, b, c, d] = NAMES;
        Router::builder()
            .route(Route::new(a, anthropic))
            .route(Route::new(b, openai(self.chat.url())))
            .route(Route::new(c, openai(self.responses.url()).responses_api()))
            .route(Route::new(d, ollama))
    }

    /// Returns the number of requests of each server.
    pub(crate) fn requests(&self) -> [usize; 4] {
        [
            self.anthropic.requests().len(),
            self.chat.requests().len(),
            self.responses.requests().len(),
            self.ollama.requests().len(),
        ]
    }
}

/// A tool that records the steps for which it was called.
#[derive(Clone, Default)]
pub(crate) struct Step(Arc<Mutex<Vec<u64>>>);

impl Step {
    pub(crate) fn registry(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(self.clone()));
        tools
    }

    /// Returns the steps in the order of their calls, and forgets them.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ToolDyn for Step {
    fn name(&self) -> &str {
        "step"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "step".into(),
            title: None,
            description: "Makes a step.".into(),
            input_schema: json!({
                "type": "object",
                "properties": { "step": { "type": "integer" } },
                "required": ["step"],
            }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(input["step"].as_u64().unwrap());
            Ok(ToolOutput::text("done"))
        })
    }
}
