//! Creates clients of compatible servers with predefined dialects, among them Azure with a key and with tokens.

use neuron::openai::{Dialect, KeyHeader, KeySource, OpenAi};
use neuron::prelude::*;

pub fn main() {
    for provider in predefined() {
        let info = provider.info();
        println!("{}: {} at {}", info.name, info.default_model, info.server_address);
    }
}

/// Returns clients of servers with a predefined dialect.
fn predefined() -> Vec<OpenAi> {
    let key = "a key of the vendor";
    vec![
        // ANCHOR: predefined
        OpenAi::compatible(Dialect::mistral(), key).model("mistral-large-latest"),
        OpenAi::compatible(Dialect::openrouter(), key).model("deepseek/deepseek-chat"),
        OpenAi::compatible(Dialect::vllm(), "").model("Qwen/Qwen3-8B"),
        OpenAi::compatible(Dialect::vllm().at("http://gpu-box:8000/v1"), "").model("Qwen/Qwen3-8B"),
        // ANCHOR_END: predefined
        // ANCHOR: azure
        // The `v1` API. The model is the name of a deployment.
        OpenAi::compatible(Dialect::azure("my-resource"), key).model("my-deployment"),
        // One URL for each deployment, with the version of the API.
        OpenAi::compatible(
            Dialect::azure_deployment("my-resource", "my-deployment", "2024-10-21"),
            key,
        ),
        // A token of Entra ID instead of a key.
        OpenAi::compatible(with_token(Dialect::azure("my-resource")), "")
            .key_source(KeySource::new(entra_token))
            .model("my-deployment"),
        // ANCHOR_END: azure
    ]
}

// ANCHOR: token
fn with_token(mut dialect: Dialect) -> Dialect {
    dialect.key_header = KeyHeader::Bearer;
    dialect
}

/// Returns a token. The client calls this function before each request, so a real function caches the token until it
/// expires.
async fn entra_token() -> Result<String, ProviderError> {
    std::fs::read_to_string("/var/run/secrets/entra-token")
        .map(|token| token.trim().to_owned())
        .map_err(|error| ProviderError::Authentication(format!("no token: {error}")))
}
// ANCHOR_END: token
