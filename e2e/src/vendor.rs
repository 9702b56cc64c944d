//! [`VENDORS`], the vendors whose loopback servers and providers are tested.

use std::io;
use std::pin::Pin;

use neuron_provider_anthropic::Anthropic;
use neuron_provider_bedrock::Bedrock;
use neuron_provider_gemini::Gemini;
use neuron_provider_ollama::Ollama;
use neuron_provider_openai::OpenAi;
use neuron_testing::vendor::{self, VendorServer, VendorServerBuilder};
use neuron_testing::{
    AnthropicServer, BedrockServer, GeminiServer, OllamaServer, OpenAiServer, RecordedRequest,
    ServerReply,
};
use neuron_types::{BoxedEmbeddingProvider, BoxedProvider};

/// API key that all servers accept.
pub(crate) const API_KEY: &str = AnthropicServer::API_KEY;

/// The model that the servers accept.
pub(crate) const MODEL: &str = "the-model";

/// Another model that the OpenAI server accepts. The API searches deferred tools for it.
const OPENAI_MODEL: &str = "gpt-5.4-mini";

/// Another model that the Gemini server accepts. Its rules follow from the generation in its name.
const GEMINI_MODEL: &str = "gemini-3.8-flash";

/// Another model that the Bedrock server accepts. Its rules follow from the vendor in its id.
const BEDROCK_MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

/// A vendor for which we have a loopback server and a provider.
pub(crate) struct Vendor {
    /// Name of the vendor on the command line.
    pub(crate) name: &'static str,
    /// The corpus file with the requests and responses for this vendor only.
    pub(crate) corpus: &'static str,
    /// The APIs of the vendor's provider.
    pub(crate) forms: &'static [Form],
    /// Creates an embedding provider for the server at a URL. `None` if the vendor has no embeddings.
    pub(crate) embedder: Option<fn(&str) -> BoxedEmbeddingProvider>,
    /// Number of times that the Python code requests the same embeddings.
    pub(crate) embeddings: usize,
    /// Number of valid requests that the Python code creates itself.
    pub(crate) own_requests: usize,
    /// Starts a server with these replies. The server accepts [`MODEL`] and no model that the Python code makes up.
    pub(crate) start: fn(Vec<ServerReply>) -> Starting,
}

/// An API of a vendor's provider. OpenAI has two.
pub(crate) struct Form {
    /// Name of the API in the written requests.
    pub(crate) name: &'static str,
    /// Creates a provider for the server at a URL.
    pub(crate) provider: fn(&str) -> BoxedProvider,
    /// Names of the corpus requests that the provider must reject, because the API cannot express them.
    pub(crate) refused: &'static [&'static str],
}

pub(crate) const VENDORS: [Vendor; 5] = [
    Vendor {
        name: "anthropic",
        corpus: include_str!("../corpus/anthropic.json"),
        forms: &[Form {
            name: "messages",
            provider: |url| BoxedProvider::new(Anthropic::new(API_KEY).base_url(url).model(MODEL)),
            refused: &["any json object"],
        }],
        embedder: None,
        embeddings: 0,
        own_requests: 14,
        start: |replies| start(AnthropicServer::builder().models([MODEL]), replies),
    },
    Vendor {
        name: "openai",
        corpus: include_str!("../corpus/openai.json"),
        forms: &[
            Form {
                name: "chat",
                provider: |url| BoxedProvider::new(openai(url)),
                refused: &["a document at an address", "context management"],
            },
            Form {
                name: "responses",
                provider: |url| BoxedProvider::new(openai(url).responses_api()),
                refused: &["stop sequences"],
            },
        ],
        embedder: Some(|url| BoxedEmbeddingProvider::new(openai(url))),
        // The client's default format, numbers, and base64.
        embeddings: 3,
        own_requests: 11,
        start: |replies| start(OpenAiServer::builder().models([MODEL, OPENAI_MODEL]), replies),
    },
    Vendor {
        name: "gemini",
        corpus: include_str!("../corpus/gemini.json"),
        forms: &[Form {
            name: "generate content",
            provider: |url| BoxedProvider::new(gemini(url)),
            // The model always thinks.
            refused: &["no thinking", "no effort"],
        }],
        embedder: Some(|url| BoxedEmbeddingProvider::new(gemini(url))),
        // Once over plain HTTP, once with the client, and twice with the client at Vertex AI.
        embeddings: 4,
        own_requests: 14,
        start: |replies| start(GeminiServer::builder().models([MODEL, GEMINI_MODEL]), replies),
    },
    Vendor {
        name: "bedrock",
        corpus: include_str!("../corpus/bedrock.json"),
        forms: &[Form {
            name: "converse",
            provider: |url| BoxedProvider::new(bedrock(url)),
            refused: &["any json object", "an image at an address", "a document at an address"],
        }],
        embedder: None,
        embeddings: 0,
        own_requests: 15,
        start: |replies| start(BedrockServer::builder().models([MODEL, BEDROCK_MODEL]), replies),
    },
    Vendor {
        name: "ollama",
        corpus: include_str!("../corpus/ollama.json"),
        forms: &[Form {
            name: "native chat",
            provider: |url| BoxedProvider::new(Ollama::new().base_url(url).model(MODEL)),
            refused: &[
                "some tool",
                "this tool",
                "an image at an address",
                "a document",
                "a document at an address",
            ],
        }],
        embedder: Some(|url| BoxedEmbeddingProvider::new(Ollama::new().base_url(url))),
        // Once over plain HTTP, and once with the client.
        embeddings: 2,
        own_requests: 8,
        start: |replies| start(OllamaServer::builder().models([MODEL]), replies),
    },
];

/// Creates OpenAI's provider for the server at a URL.
pub(crate) fn openai(url: &str) -> OpenAi {
    OpenAi::new(API_KEY).base_url(url).model(MODEL)
}

/// Creates Google AI's provider for the server at a URL.
fn gemini(url: &str) -> Gemini {
    Gemini::new(API_KEY).base_url(url).model(GEMINI_MODEL)
}

/// Creates Bedrock's provider for the server at a URL.
pub(crate) fn bedrock(url: &str) -> Bedrock {
    Bedrock::new("us-east-1", API_KEY).base_url(url).model(BEDROCK_MODEL)
}

/// The future that starts a loopback server.
pub(crate) type Starting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Server>>>>>;

/// Starts a server that sends these replies in order.
pub(crate) fn start<V: vendor::Vendor>(
    builder: VendorServerBuilder<V>,
    replies: Vec<ServerReply>,
) -> Starting {
    Box::pin(async move {
        let server = builder.start(replies).await?;
        Ok(Box::new(server) as Box<dyn Server>)
    })
}

/// A running loopback server of any vendor.
pub(crate) trait Server {
    /// Returns the URL of the server.
    fn url(&self) -> String;
    /// Returns the number of replies that no client has requested yet.
    fn remaining(&self) -> usize;
    /// Returns the requests that the server has received.
    fn requests(&self) -> Vec<RecordedRequest>;
    /// Adds a reply to the end of the script.
    fn push(&self, reply: ServerReply);
}

impl<V: vendor::Vendor> Server for VendorServer<V> {
    fn url(&self) -> String {
        self.url()
    }

    fn remaining(&self) -> usize {
        self.remaining()
    }

    fn requests(&self) -> Vec<RecordedRequest> {
        self.requests()
    }

    fn push(&self, reply: ServerReply) {
        self.push(reply);
    }
}
