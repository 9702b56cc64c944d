//! The vendors whose servers and providers are checked.

use std::io;
use std::pin::Pin;

use neuron_provider_anthropic::Anthropic;
use neuron_provider_ollama::Ollama;
use neuron_provider_openai::OpenAi;
use neuron_testing::vendor::{self, VendorServer, VendorServerBuilder};
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, RecordedRequest, ServerReply};
use neuron_types::{BoxedEmbeddingProvider, BoxedProvider};

/// The key for all servers that need a key.
pub(crate) const API_KEY: &str = AnthropicServer::API_KEY;

/// The only model that the servers know.
pub(crate) const MODEL: &str = "the-model";

/// A vendor whose server and provider we have.
pub(crate) struct Vendor {
    pub(crate) name: &'static str,
    /// The requests and responses for this vendor only.
    pub(crate) corpus: &'static str,
    pub(crate) forms: &'static [Form],
    /// Creates an embedding provider for the server at this URL.
    pub(crate) embedder: Option<fn(&str) -> BoxedEmbeddingProvider>,
    /// Number of times that the client requests the same embeddings.
    pub(crate) embeddings: usize,
    /// Number of valid requests that the client chooses.
    pub(crate) own_requests: usize,
    /// Starts a server that knows only [`MODEL`].
    pub(crate) start: fn(Vec<ServerReply>) -> Starting,
}

/// A form of a vendor's provider. A vendor with two APIs has two forms.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Creates a provider for the server at this URL.
    pub(crate) provider: fn(&str) -> BoxedProvider,
    /// The requests that this form must reject, because its wire format cannot express them.
    pub(crate) refused: &'static [&'static str],
}

pub(crate) const VENDORS: [Vendor; 3] = [
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
        start: |replies| start(AnthropicServer::builder(), replies),
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
        // As the client prefers, as numbers, and in base64.
        embeddings: 3,
        own_requests: 11,
        start: |replies| start(OpenAiServer::builder(), replies),
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
        // Directly, and through the client.
        embeddings: 2,
        own_requests: 8,
        start: |replies| start(OllamaServer::builder(), replies),
    },
];

fn openai(url: &str) -> OpenAi {
    OpenAi::new(API_KEY).base_url(url).model(MODEL)
}

/// The future that starts a loopback server.
type Starting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Server>>>>>;

fn start<V: vendor::Vendor>(
    builder: VendorServerBuilder<V>,
    replies: Vec<ServerReply>,
) -> Starting {
    Box::pin(async move {
        let server = builder.models([MODEL]).start(replies).await?;
        Ok(Box::new(server) as Box<dyn Server>)
    })
}

/// A running loopback server of any vendor.
pub(crate) trait Server {
    fn url(&self) -> String;
    fn remaining(&self) -> usize;
    fn requests(&self) -> Vec<RecordedRequest>;
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
}
