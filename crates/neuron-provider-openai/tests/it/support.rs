//! The test server, its provider, a request and a response.

pub(crate) use neuron_conformance::case::soon;
use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage,
    ToolDefinition,
};
use neuron_provider_openai::OpenAi;
use neuron_testing::openai::{Dialect, chat_body, responses_body};
use neuron_testing::{OpenAiServer, ServerReply};
use serde_json::json;

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> OpenAiServer {
    OpenAiServer::start(replies).await.unwrap()
}

/// The API that receives completion requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
}

pub(crate) const APIS: [Api; 2] = [Api::Chat, Api::Responses];

impl Api {
    pub(crate) fn provider(self, url: impl Into<String>) -> OpenAi {
        self.with(OpenAi::new(OpenAiServer::API_KEY).base_url(url))
    }

    pub(crate) fn with(self, provider: OpenAi) -> OpenAi {
        match self {
            Self::Chat => provider,
            Self::Responses => provider.responses_api(),
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }

    /// Returns the body of a response that is not streamed, in the format of the API.
    pub(crate) fn body(self, response: &CompletionResponse) -> String {
        let body = match self {
            Self::Chat => chat_body(response, &Dialect::default()),
            Self::Responses => responses_body(response),
        };
        body.to_string()
    }

    /// Returns the response as the provider must parse it. For the Responses API, the items of the message are
    /// converted to raw blocks.
    pub(crate) fn read(self, response: &CompletionResponse) -> CompletionResponse {
        use neuron_provider_openai::wire;
        let body = self.body(response);
        match self {
            Self::Chat => wire::read_response(body.as_bytes()),
            Self::Responses => wire::responses::read_response(body.as_bytes()),
        }
        .unwrap()
    }
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

pub(crate) fn look() -> ToolDefinition {
    ToolDefinition {
        name: "look".into(),
        title: None,
        description: "Looks".into(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Returns a small response with a text and a tool call.
pub(crate) fn answer() -> CompletionResponse {
    let content = vec![
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!({"a": 1}) },
    ];
    CompletionResponse {
        id: "answer_7".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            ..Default::default()
        },
        stop_reason: StopReason::ToolUse,
    }
}
