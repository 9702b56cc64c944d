//! The scripted servers that replace the vendors of the example programs if no key is set.

mod scripts;

use std::error::Error;

use neuron::types::{EmbeddingResponse, EmbeddingUsage};
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply, ServerReply};

/// The environment variable with the name of the program to run.
pub const VARIABLE: &str = "NEURON_EXAMPLE";

/// An example program.
#[derive(Debug)]
pub struct Example {
    /// The name of the program.
    pub name: &'static str,
    /// Returns the replies of the vendors' servers.
    script: fn() -> Script,
    /// The lines that the test enters.
    pub input: &'static str,
}

/// The replies of the servers that replace the vendors. A vendor without replies has no server.
#[derive(Default)]
struct Script {
    anthropic: Vec<Reply>,
    openai: Vec<Reply>,
    /// The vectors for the requests to OpenAI's Embeddings API, which come before all others.
    openai_vectors: Vec<Vec<Vec<f32>>>,
    ollama: Vec<Reply>,
}

impl Script {
    fn anthropic(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { anthropic: replies.into_iter().collect(), ..Self::default() }
    }
}

/// Returns all examples, in the order of the book.
#[must_use]
pub fn examples() -> Vec<Example> {
    scripts::all()
}

impl Example {
    /// Starts the servers of the vendors whose key is not set. `is_set` returns `true` if an environment variable is
    /// set.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub async fn start_servers(
        &self,
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Servers, Box<dyn Error>> {
        let script = (self.script)();
        let mut servers = Servers { variables: Vec::new(), checks: Vec::new() };
        if !script.anthropic.is_empty() && !is_set("ANTHROPIC_API_KEY") {
            let server = AnthropicServer::start(script.anthropic).await?;
            servers.set("ANTHROPIC_API_KEY", AnthropicServer::API_KEY);
            servers.set("ANTHROPIC_BASE_URL", server.url());
            servers.checks.push(Box::new(move || server.assert_complete()));
        }
        let vectors = script.openai_vectors.into_iter().map(|embeddings| {
            let model = "text-embedding-3-small".to_owned();
            ServerReply::from(EmbeddingResponse {
                embeddings,
                model,
                usage: EmbeddingUsage::default(),
            })
        });
        let replies: Vec<_> = vectors.chain(script.openai.into_iter().map(Into::into)).collect();
        if !replies.is_empty() && !is_set("OPENAI_API_KEY") {
            let server = OpenAiServer::start(replies).await?;
            servers.set("OPENAI_API_KEY", OpenAiServer::API_KEY);
            servers.set("OPENAI_BASE_URL", server.url());
            servers.checks.push(Box::new(move || server.assert_complete()));
        }
        if !script.ollama.is_empty() && !is_set("OLLAMA_HOST") {
            let server = OllamaServer::start(script.ollama).await?;
            servers.set("OLLAMA_HOST", server.url());
            servers.checks.push(Box::new(move || server.assert_complete()));
        }
        Ok(servers)
    }
}

/// The running servers of an example. They stop when this value is dropped.
#[expect(missing_debug_implementations, reason = "only the tests and the program here use it")]
pub struct Servers {
    /// The environment variables with which the program finds the servers.
    pub variables: Vec<(&'static str, String)>,
    checks: Vec<Box<dyn Fn() + Send>>,
}

impl Servers {
    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.variables.push((name, value.into()));
    }

    /// Panics if a server has replies that the program did not request.
    pub fn assert_complete(&self) {
        for check in &self.checks {
            check();
        }
    }
}
