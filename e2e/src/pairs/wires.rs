//! [`WIRES`], the wire formats between which conversations move. A further wire is one further entry.

use std::collections::BTreeSet;

use neuron_provider_anthropic::Anthropic;
use neuron_provider_gemini::{Gemini, KeySource};
use neuron_provider_ollama::Ollama;
use neuron_testing::{AnthropicServer, BedrockServer, GeminiServer, OllamaServer, OpenAiServer};
use neuron_types::{BoxedProvider, ContentBlock, Message};
use serde_json::Value;

use super::exchange::{self, Exchange};
use super::own::{self, Make};
use super::plan::CallId::{self, Dotted, Long, Missing, Numbered, Unique};
use super::restored::{self, Restored};
use crate::vendor::{API_KEY, MODEL, Starting, bedrock, openai, start};

/// A wire format, with the real provider and the loopback server of its vendor.
pub(crate) struct Wire {
    pub(crate) name: &'static str,
    /// The vendor whose client checks the requests, as in [`VENDORS`](crate::vendor::VENDORS).
    pub(crate) vendor: &'static str,
    /// The models that answer. The first one gets the requests that are checked at the end of a conversation.
    pub(crate) models: &'static [&'static str],
    /// Creates a provider for the server at a URL.
    pub(crate) provider: fn(&str) -> BoxedProvider,
    /// Starts a server without replies.
    pub(crate) start: fn() -> Starting,
    /// The field of a body that has the conversation.
    pub(crate) list: &'static str,
    /// Returns the tool calls and results in the conversation of a body.
    pub(crate) exchanges: fn(&[Value]) -> Vec<Exchange<'_>>,
    /// The ids that this vendor's servers, or servers that imitate them, give to calls.
    pub(crate) ids: &'static [CallId],
    /// `true` if the arguments of a call may be cut off. Otherwise the server parses them.
    pub(crate) has_broken_args: bool,
    /// Content that only this vendor's servers send. Each function creates the blocks of a response.
    pub(crate) own: &'static [Make],
    /// The content after which the server pauses a response, and the content with which it continues.
    pub(crate) pause: Option<(Make, Make)>,
    /// Returns what a request must contain for a block of an earlier response, see [`restored`].
    pub(crate) restored: fn(&Message, &ContentBlock, &str) -> Restored,
    /// The files in messages of the user that the provider rejects, as documented.
    pub(crate) rejected: &'static [File],
    /// The files in results of tools that a request contains. The other files are replaced by a text.
    pub(crate) in_results: &'static [File],
    /// The files in results of failed tools that a request contains.
    pub(crate) in_failed_results: &'static [File],
}

/// A kind of file in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum File {
    /// An image of a type that all vendors accept.
    Image,
    Gif,
    ImageUrl,
    Pdf,
    DocumentUrl,
}

use File::{DocumentUrl, Gif, Image, ImageUrl, Pdf};

pub(crate) const WIRES: &[Wire] = &[
    Wire {
        name: "anthropic",
        vendor: "anthropic",
        models: &[MODEL],
        provider: |url| BoxedProvider::new(Anthropic::new(API_KEY).base_url(url)),
        start: || start(AnthropicServer::builder(), Vec::new()),
        list: "messages",
        exchanges: exchange::of_blocks,
        ids: &[Unique, Numbered, Dotted, Missing],
        has_broken_args: true,
        own: &[own::search, own::redacted_thinking, own::direct_call, own::shell, own::compaction],
        pause: Some((own::begun_search, own::ended_search)),
        restored: restored::by_anthropic,
        rejected: &[],
        in_results: &[Image, Gif, ImageUrl, Pdf],
        in_failed_results: &[],
    },
    Wire {
        name: "responses",
        vendor: "openai",
        models: &[MODEL],
        provider: |url| BoxedProvider::new(openai(url).responses_api()),
        start: || start(OpenAiServer::builder(), Vec::new()),
        list: "input",
        exchanges: exchange::of_items,
        ids: &[Unique, Numbered, Dotted, Missing],
        has_broken_args: true,
        own: &[
            own::web_search_call,
            own::custom_tool_call,
            own::encrypted_compaction,
            own::code_interpreter_call,
            own::mcp_call,
            own::image_generation_call,
            own::file_search_call,
        ],
        pause: None,
        restored: restored::by_responses,
        rejected: &[],
        in_results: &[Image, Gif, ImageUrl, Pdf],
        in_failed_results: &[Image, Gif, ImageUrl, Pdf],
    },
    Wire {
        name: "chat",
        vendor: "openai",
        models: &[MODEL],
        provider: |url| BoxedProvider::new(openai(url)),
        start: || start(OpenAiServer::builder(), Vec::new()),
        list: "messages",
        exchanges: exchange::of_chat,
        ids: &[Unique, Numbered, Dotted, Missing],
        has_broken_args: true,
        own: &[own::annotations, own::speech, own::custom_call],
        pause: None,
        restored: restored::by_chat,
        rejected: &[DocumentUrl],
        in_results: &[Image, Gif, ImageUrl],
        in_failed_results: &[Image, Gif, ImageUrl],
    },
    Wire {
        name: "gemini",
        vendor: "gemini",
        models: GEMINI_MODELS,
        provider: |url| BoxedProvider::new(Gemini::new(API_KEY).base_url(url)),
        start: || start(GeminiServer::builder(), Vec::new()),
        list: "contents",
        exchanges: exchange::of_contents,
        ids: &[Unique, Numbered, Missing, Long],
        has_broken_args: false,
        own: &[own::code_of_gemini, own::image_of_gemini, own::server_call_of_gemini],
        pause: None,
        restored: restored::by_gemini,
        rejected: &[Gif],
        in_results: &[Image, ImageUrl, Pdf],
        in_failed_results: &[Image, ImageUrl, Pdf],
    },
    Wire {
        name: "vertex",
        vendor: "gemini",
        models: GEMINI_MODELS,
        provider: |url| {
            let token = KeySource::new(|| async { Ok(API_KEY.to_owned()) });
            BoxedProvider::new(Gemini::vertex("my-project", "global", token).base_url(url))
        },
        start: || start(GeminiServer::builder(), Vec::new()),
        list: "contents",
        exchanges: exchange::of_contents,
        ids: &[Unique, Numbered, Missing, Long],
        has_broken_args: false,
        own: &[own::code_of_vertex, own::image_of_vertex],
        pause: None,
        restored: restored::by_vertex,
        rejected: &[Gif],
        in_results: &[Image, ImageUrl, Pdf],
        in_failed_results: &[Image, ImageUrl, Pdf],
    },
    Wire {
        name: "bedrock",
        vendor: "bedrock",
        models: BEDROCK_MODELS,
        provider: |url| BoxedProvider::new(bedrock(url)),
        start: || start(BedrockServer::builder(), Vec::new()),
        list: "messages",
        exchanges: exchange::of_turns,
        ids: &[Unique, Numbered, Dotted, Missing, Long],
        has_broken_args: true,
        own: &[own::citations, own::redacted_thinking, own::grounding, own::image_of_bedrock],
        pause: None,
        restored: restored::by_bedrock,
        rejected: &[ImageUrl, DocumentUrl],
        in_results: &[Image, Gif, Pdf],
        in_failed_results: &[],
    },
    Wire {
        name: "ollama",
        vendor: "ollama",
        models: &[MODEL],
        provider: |url| BoxedProvider::new(Ollama::new().base_url(url)),
        start: || start(OllamaServer::builder(), Vec::new()),
        list: "messages",
        exchanges: exchange::of_chat,
        ids: &[Unique, Numbered, Missing, Long],
        has_broken_args: false,
        own: &[],
        pause: None,
        restored: restored::nothing,
        rejected: &[ImageUrl, Pdf, DocumentUrl],
        in_results: &[Image, Gif],
        in_failed_results: &[Image, Gif],
    },
];

/// Models of two generations, and two models of one generation, which reject each other's signatures.
const GEMINI_MODELS: &[&str] = &["gemini-3.8-flash", "gemini-3.7-flash", "gemini-2.5-flash"];

/// Models of families that differ in reasoning, in citations and in the places of files.
const BEDROCK_MODELS: &[&str] = &[
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "global.anthropic.claude-opus-5-5",
    "global.amazon.nova-2-lite-v1:0",
    "global.openai.gpt-6-sol",
    "us.deepseek.r1-v1:0",
    "qwen.qwen3-32b-v1:0",
];

/// Returns the names of the vendors of all wires, sorted.
pub(crate) fn vendors() -> BTreeSet<&'static str> {
    WIRES.iter().map(|wire| wire.vendor).collect()
}
