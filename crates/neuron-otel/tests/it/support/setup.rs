//! An agent with a provider over HTTP, tools, an `OtelHook` and an export pipeline.
//!
//! A test runs one case for each combination of a vendor's protocol and a version of the conventions.

use std::sync::Arc;

use neuron_loop::AgentBuilder;
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_provider_anthropic::Anthropic;
use neuron_provider_openai::OpenAi;
use neuron_testing::{AnthropicServer, OpenAiServer, ServerReply};
use neuron_tool::ToolRegistry;
use neuron_types::{BoxedProvider, ToolContext};

use super::agents::{Chat, bare, parallel};
use super::checker::Checker;
use super::conventions::Version;
use super::look::{Behavior, Look};
use super::telemetry::{Exported, Telemetry};

/// The protocol of a model vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    /// OpenAI's Chat Completions.
    OpenAi,
    /// OpenAI's Responses API.
    Responses,
}

impl Vendor {
    pub(crate) const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Responses];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi | Self::Responses => "openai",
        }
    }

    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-5",
            Self::OpenAi | Self::Responses => "gpt-4.1",
        }
    }
}

/// A vendor's protocol and a version of the conventions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) vendor: Vendor,
    pub(crate) version: Version,
}

/// Returns every combination of a vendor and a version.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let versions = |vendor| Version::ALL.map(|version| Case { vendor, version });
    Vendor::ALL.into_iter().flat_map(versions)
}

impl Case {
    /// Starts a model server with these responses, and an export pipeline.
    pub(crate) async fn start<R: Into<ServerReply>>(
        self,
        replies: impl IntoIterator<Item = R>,
    ) -> Setup {
        self.start_with(Telemetry::start(), replies).await
    }

    /// Starts a model server with these responses, and uses the given export pipeline.
    pub(crate) async fn start_with<R: Into<ServerReply>>(
        self,
        telemetry: Telemetry,
        replies: impl IntoIterator<Item = R>,
    ) -> Setup {
        let server = match self.vendor {
            Vendor::Anthropic => Server::Anthropic(AnthropicServer::start(replies).await.unwrap()),
            Vendor::OpenAi | Vendor::Responses => {
                Server::OpenAi(OpenAiServer::start(replies).await.unwrap())
            }
        };
        Setup { case: self, server, telemetry }
    }

    /// Returns a hook for the version of this case, which records metrics in `telemetry`.
    pub(crate) fn hook(self, telemetry: &Telemetry) -> OtelHook {
        let conventions = match self.version {
            Version::V1_41 => SemanticConventions::V1_41,
            Version::Latest => SemanticConventions::Latest,
        };
        OtelHook::new().with_conventions(conventions).with_meter_provider(telemetry.meters())
    }

    pub(crate) fn checker(self) -> Checker {
        Checker::new(self.version)
    }
}

/// The model server, which implements the protocol of a vendor.
#[derive(Debug)]
pub(crate) enum Server {
    Anthropic(AnthropicServer),
    OpenAi(OpenAiServer),
}

impl Server {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Anthropic(server) => server.url(),
            Self::OpenAi(server) => server.url(),
        }
    }

    /// Returns the port of the server, which is an attribute of spans.
    pub(crate) fn port(&self) -> i64 {
        self.url().rsplit(':').next().unwrap().trim_end_matches("/v1").parse().unwrap()
    }

    pub(crate) async fn wait_for_requests(&self, count: usize) {
        match self {
            Self::Anthropic(server) => server.wait_for_requests(count).await,
            Self::OpenAi(server) => server.wait_for_requests(count).await,
        }
    }
}

/// A case with its running model server and its export pipeline.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) case: Case,
    pub(crate) server: Server,
    pub(crate) telemetry: Telemetry,
}

impl Setup {
    pub(crate) fn provider(&self) -> BoxedProvider {
        let (url, model) = (self.server.url(), self.case.vendor.model());
        match self.case.vendor {
            Vendor::Anthropic => BoxedProvider::new(
                Anthropic::new(AnthropicServer::API_KEY).base_url(url).model(model),
            ),
            Vendor::OpenAi => {
                BoxedProvider::new(OpenAi::new(OpenAiServer::API_KEY).base_url(url).model(model))
            }
            Vendor::Responses => BoxedProvider::new(
                OpenAi::new(OpenAiServer::API_KEY).base_url(url).model(model).responses_api(),
            ),
        }
    }

    pub(crate) fn hook(&self) -> OtelHook {
        self.case.hook(&self.telemetry)
    }

    /// Returns the builder of an agent named `planner` with the tool `look` and without hooks. `behavior` determines
    /// what the calls of the tool do.
    pub(crate) fn plain(&self, behavior: Behavior) -> AgentBuilder {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Look(behavior)));
        bare(self.provider())
            .name("planner")
            .system_prompt("You plan.")
            .request(|request| {
                request.max_tokens = Some(64);
                request.temperature = Some(0.5);
            })
            .config(parallel)
            .tools(tools)
    }

    /// Returns an agent named `planner` with the tool `look` and an `OtelHook` for the version of this case.
    pub(crate) fn agent(&self, behavior: Behavior) -> Chat {
        Chat::new(self.plain(behavior).hook(self.hook()))
    }

    /// Checks the received telemetry against the conventions and returns it.
    #[track_caller]
    pub(crate) fn finish(self) -> Exported {
        let checker = self.case.checker();
        let exported = self.telemetry.finish();
        checker.assert_holds(&exported);
        exported
    }
}

/// Returns the tool context of a run with the session id `conversation-1`.
pub(crate) fn context() -> ToolContext {
    ToolContext { session_id: "conversation-1".to_owned(), ..ToolContext::default() }
}
