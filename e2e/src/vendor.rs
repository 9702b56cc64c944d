//! The vendors, and what each must offer to be judged.

use std::io;

use neuron_testing::{RecordedRequest, ServerReply};
use neuron_types::{BoxedProvider, CompletionRequest};

use crate::anthropic;
use crate::serve::Case;

/// A vendor whose server and provider we have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
}

/// A loopback server of any vendor, while it runs.
pub(crate) trait Server: Send {
    fn url(&self) -> String;
    fn remaining(&self) -> usize;
    fn requests(&self) -> Vec<RecordedRequest>;
}

/// One form of a vendor's provider; a vendor with two APIs has two.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Makes a provider that talks to the server at this address.
    pub(crate) provider: fn(&str) -> BoxedProvider,
    /// The requests that this form must refuse, because its wire cannot express them.
    pub(crate) refused: &'static [&'static str],
}

impl Vendor {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }

    /// Starts a server that knows [`MODEL`] alone.
    pub(crate) async fn start(self, replies: Vec<ServerReply>) -> io::Result<Box<dyn Server>> {
        match self {
            Self::Anthropic => anthropic::start(replies).await,
        }
    }

    /// The key that its server wants.
    pub(crate) fn api_key(self) -> &'static str {
        match self {
            Self::Anthropic => neuron_testing::AnthropicServer::API_KEY,
        }
    }

    /// What its server is to answer.
    pub(crate) fn cases(self) -> Vec<Case> {
        match self {
            Self::Anthropic => anthropic::cases(),
        }
    }

    pub(crate) fn forms(self) -> &'static [Form] {
        match self {
            Self::Anthropic => anthropic::FORMS,
        }
    }

    /// The requests that only this vendor's provider is asked to write.
    pub(crate) fn own_requests(self) -> Vec<(&'static str, CompletionRequest)> {
        match self {
            Self::Anthropic => anthropic::requests(),
        }
    }
}

/// The one model that every server knows.
pub(crate) const MODEL: &str = "the-model";
