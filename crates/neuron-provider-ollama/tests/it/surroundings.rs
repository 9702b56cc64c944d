//! What the environment says. Each of these tests runs once more, in a process of its own with
//! variables of its own.

use std::process::Command;

use neuron_provider_ollama::Ollama;
use neuron_testing::OllamaServer;
use neuron_types::Provider;

use crate::support::*;

const CHILD: &str = "NEURON_TEST_CHILD";

/// Whether this is the child. If not, runs the test in one.
fn is_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("surroundings::{test}"), "--exact", "--nocapture"]);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.env(CHILD, "1").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("1 passed"), "{shown}");
    false
}

#[tokio::test]
async fn a_proxy_is_not_asked_for_this_machine() {
    let nobody = "http://127.0.0.1:9";
    let variables = [
        ("HTTP_PROXY", nobody),
        ("http_proxy", nobody),
        ("ALL_PROXY", nobody),
        ("OLLAMA_API_KEY", "test-key\n"),
    ];
    if is_child("a_proxy_is_not_asked_for_this_machine", &variables) {
        let builder = OllamaServer::builder().api_key(OllamaServer::API_KEY);
        let server = builder.start([answer()]).await.unwrap();
        let provider = Ollama::from_env().unwrap().base_url(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap(), answer());
    }
}

/// The server learns its address from the same variable.
#[tokio::test]
async fn the_host_is_where_the_server_listens() {
    const TEST: &str = "the_host_is_where_the_server_listens";
    if std::env::var_os(CHILD).is_some() {
        let error = soon(Ollama::from_env().unwrap().complete(ask("hi"))).await.unwrap_err();
        assert!(error.to_string().contains("model 'llama3.2' not found"), "{error}");
        return;
    }
    let builder = OllamaServer::builder().models(["another"]);
    let server = builder.start(["never sent"]).await.unwrap();
    let port = server.url().rsplit_once(':').unwrap().1.to_owned();
    for host in [format!("0.0.0.0:{port}"), format!(":{port}"), server.url() + "/"] {
        tokio::task::spawn_blocking(move || is_child(TEST, &[("OLLAMA_HOST", &host)]))
            .await
            .unwrap();
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_name_that_has_no_address() {
    if is_child("a_name_that_has_no_address", &[]) {
        // Longer than a name may be, so that nobody has to be asked for it.
        let url = format!("http://{}:80", "x".repeat(64));
        let error = soon(provider(url).complete(ask("hi"))).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), ("Network", true));
        let text = error.to_string();
        assert!(text.contains("http://xxx"), "{text}");
        assert!(text.contains("lookup address"), "{text}");
    }
}
