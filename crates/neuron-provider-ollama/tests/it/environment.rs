//! Tests of the environment variables for the API key and the host. The tests run in child processes, which have their
//! own environments.

use neuron_conformance::child_process::run_with_environment;
use neuron_model::Provider;
use neuron_provider_ollama::Ollama;
use neuron_testing::OllamaServer;

use crate::support::*;

#[tokio::test]
async fn key_from_environment_is_sent() {
    let test = concat!(module_path!(), "::key_from_environment_is_sent");
    if run_with_environment(test, [("OLLAMA_API_KEY", "test-key\n")]) {
        let builder = OllamaServer::builder().api_key(OllamaServer::API_KEY);
        let server = builder.start(["hello"]).await.unwrap();
        let provider = Ollama::from_env().unwrap().base_url(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap().message.text(), "hello");
    }
}

/// The client must send its request to the host in `OLLAMA_HOST`. The server reads its listen address from the same
/// variable, so the value may be `0.0.0.0` or only a port.
#[tokio::test(flavor = "multi_thread")]
async fn host_from_environment_is_called() {
    let test = concat!(module_path!(), "::host_from_environment_is_called");
    let builder = OllamaServer::builder().models(["another"]);
    let server = builder.start(["never sent"]).await.unwrap();
    let port = server.url().rsplit_once(':').unwrap().1.to_owned();
    for host in [format!("0.0.0.0:{port}"), format!(":{port}"), server.url() + "/"] {
        if tokio::task::block_in_place(|| run_with_environment(test, [("OLLAMA_HOST", host)])) {
            let error = soon(Ollama::from_env().unwrap().complete(ask("hi"))).await.unwrap_err();
            assert!(error.to_string().contains("model 'llama3.2' not found"), "{error}");
            return;
        }
    }
    assert_eq!(server.requests().len(), 3);
}
