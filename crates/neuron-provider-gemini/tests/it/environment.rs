//! Tests of the environment variables for the API key and the base URL. The tests run in child processes, which have
//! their own environments.

use neuron_conformance::child_process::run_with_environment;
use neuron_model::Provider;
use neuron_provider_gemini::Gemini;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn key_and_base_url_from_environment_are_used() {
    let test = concat!(module_path!(), "::key_and_base_url_from_environment_are_used");
    let reply = || whole(&serde_json::json!([{"text": "hello"}]));
    let server = start([reply(), reply()]).await;
    let url = server.url();
    for variables in [
        [
            ("GOOGLE_API_KEY", "first"),
            ("GEMINI_API_KEY", "second"),
            ("GOOGLE_GEMINI_BASE_URL", &url),
        ],
        [("GOOGLE_API_KEY", ""), ("GEMINI_API_KEY", "second\n"), ("GOOGLE_GEMINI_BASE_URL", &url)],
    ] {
        if tokio::task::block_in_place(|| run_with_environment(test, variables)) {
            let response = soon(Gemini::from_env().unwrap().complete(ask("hi"))).await.unwrap();
            assert_eq!(response.message.text(), "hello");
            return;
        }
    }
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|sent| sent.header("x-goog-api-key").unwrap()).collect();
    assert_eq!(keys, ["first", "second"]);
}
