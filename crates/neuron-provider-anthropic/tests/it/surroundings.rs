//! What the environment says. Each of these tests runs once more, in a process of its own with
//! variables of its own.

use std::process::Command;

use neuron_provider_anthropic::Anthropic;
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
        ("ANTHROPIC_API_KEY", "test-key\n"),
    ];
    if is_child("a_proxy_is_not_asked_for_this_machine", &variables) {
        let server = start([answer()]).await;
        let provider = Anthropic::from_env().unwrap().base_url(server.url());
        assert_eq!(provider.complete(ask("hi")).await.unwrap(), answer());
    }
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

/// It panicked.
#[test]
fn without_a_tokio_runtime_there_is_an_error() {
    let provider = provider("http://127.0.0.1:1");
    let error = futures_util::future::FutureExt::now_or_never(provider.complete(ask("hi")));
    let error = error.unwrap().unwrap_err();
    assert!(error.to_string().contains("needs a tokio runtime"), "{error}");
}
