//! A test of the environment variable with the API key. It runs in a child process, which has its own environment.

use neuron_conformance::child_process::run_with_environment;
use neuron_model::Provider;
use neuron_provider_anthropic::Anthropic;

use crate::support::*;

#[tokio::test]
async fn key_from_environment_is_sent() {
    let test = concat!(module_path!(), "::key_from_environment_is_sent");
    if run_with_environment(test, [("ANTHROPIC_API_KEY", "test-key\n")]) {
        let server = start(["hello"]).await;
        let provider = Anthropic::from_env().unwrap().base_url(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap().message.text(), "hello");
    }
}
