//! The vendors, and what each must offer to be judged.

use std::io;

use neuron_testing::vendor::VendorServer;
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, RecordedRequest, ServerReply};
use neuron_types::{BoxedEmbeddingProvider, BoxedProvider, CompletionRequest};

use crate::serve::Case;
use crate::{anthropic, ollama, openai};

/// A vendor whose server and provider we have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
    Ollama,
}

/// One form of a vendor's provider; a vendor with two APIs has two.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Makes a provider that talks to the server at this address.
    pub(crate) provider: fn(&str) -> BoxedProvider,
    /// The requests that this form must refuse, because its wire cannot express them.
    pub(crate) refused: &'static [&'static str],
}

/// Makes a provider of embeddings that talks to the server at this address.
pub(crate) type MakeEmbedder = fn(&str) -> BoxedEmbeddingProvider;

impl Vendor {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "anthropic" => Some(Self::Anthropic),
            "openai" => Some(Self::OpenAi),
            "ollama" => Some(Self::Ollama),
            _ => None,
        }
    }

    /// Starts a server that knows [`MODEL`] alone.
    pub(crate) async fn start(self, replies: Vec<ServerReply>) -> io::Result<Box<dyn Server>> {
        Ok(match self {
            Self::Anthropic => {
                Box::new(AnthropicServer::builder().models([MODEL]).start(replies).await?)
            }
            Self::OpenAi => Box::new(OpenAiServer::builder().models([MODEL]).start(replies).await?),
            Self::Ollama => Box::new(OllamaServer::builder().models([MODEL]).start(replies).await?),
        })
    }

    /// What its server is to answer.
    pub(crate) fn cases(self) -> Vec<Case> {
        match self {
            Self::Anthropic => anthropic::cases(),
            Self::OpenAi => openai::cases(),
            Self::Ollama => ollama::cases(),
        }
    }

    pub(crate) fn forms(self) -> &'static [Form] {
        match self {
            Self::Anthropic => anthropic::FORMS,
            Self::OpenAi => openai::FORMS,
            Self::Ollama => ollama::FORMS,
        }
    }

    /// The requests that only this vendor's provider is asked to write.
    pub(crate) fn own_requests(self) -> Vec<(&'static str, CompletionRequest)> {
        match self {
            Self::Anthropic => anthropic::requests(),
            Self::OpenAi => openai::requests(),
            Self::Ollama => ollama::requests(),
        }
    }

    /// Its provider of embeddings, if it has one.
    pub(crate) fn embedder(self) -> Option<MakeEmbedder> {
        match self {
            Self::Anthropic => None,
            Self::OpenAi => Some(openai::embedder),
            Self::Ollama => Some(ollama::embedder),
        }
    }
}

/// A loopback server of any vendor, while it runs.
pub(crate) trait Server: Send {
    fn url(&self) -> String;
    fn remaining(&self) -> usize;
    fn requests(&self) -> Vec<RecordedRequest>;
}

impl<V: neuron_testing::vendor::Vendor> Server for VendorServer<V> {
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

/// The key that every server wants which wants one.
pub(crate) const API_KEY: &str = AnthropicServer::API_KEY;

/// The one model that every server knows.
pub(crate) const MODEL: &str = "the-model";
