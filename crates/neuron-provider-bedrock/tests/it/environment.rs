//! Tests of the environment variables for the region, the API key and the base URL. The tests run in child processes,
//! which have their own environments.

use neuron_conformance::child_process::run_with_environment;
use neuron_model::Provider;
use neuron_provider_bedrock::Bedrock;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn region_key_and_base_url_from_environment_are_used() {
    let test = concat!(module_path!(), "::region_key_and_base_url_from_environment_are_used");
    let reply = || whole(&serde_json::json!([{"text": "hello"}]));
    let server = start([reply(), reply()]).await;
    let url = server.url();
    for (region, key) in [("AWS_REGION", "first"), ("AWS_DEFAULT_REGION", "second\n")] {
        let variables = [
            (region, "eu-west-1"),
            ("AWS_BEARER_TOKEN_BEDROCK", key),
            ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", &url),
        ];
        if tokio::task::block_in_place(|| run_with_environment(test, variables)) {
            let response = soon(Bedrock::from_env().unwrap().complete(ask("hi"))).await.unwrap();
            assert_eq!(response.message.text(), "hello");
            return;
        }
    }
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|sent| sent.header("authorization").unwrap()).collect();
    assert_eq!(keys, ["Bearer first", "Bearer second"]);
}
