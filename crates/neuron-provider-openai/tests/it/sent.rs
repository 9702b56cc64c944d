//! Tests that check the URL, the headers, the body and the connection of requests.

use neuron_model::{ContentBlock, Message, Provider, Role};
use neuron_provider_openai::{OpenAi, SystemRole};
use neuron_testing::OpenAiServer;
use neuron_testing::openai::Dialect;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn request_has_headers_and_body() {
    for api in APIS {
        let server = start(["a", "b"]).await;
        let provider = api.provider(server.url()).model("gpt-test");
        provider.complete(ask("hi")).await.unwrap();
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        handle.into_response().await.unwrap();

        let [whole, streamed] = &server.requests()[..] else {
            panic!("two requests");
        };
        assert_eq!((whole.method.as_str(), whole.path.as_str()), ("POST", api.path()));
        for request in [whole, streamed] {
            assert_eq!(request.bearer(), Some(OpenAiServer::API_KEY));
            for (name, value) in [
                ("content-type", Some("application/json")),
                ("user-agent", Some(concat!("neuron/", env!("CARGO_PKG_VERSION")))),
                ("openai-organization", None),
                ("openai-project", None),
            ] {
                assert_eq!(request.header(name), value, "{name}");
            }
        }
        let (mut body, said) = match api {
            Api::Chat => (json!({"max_completion_tokens": 64}), "messages"),
            Api::Responses => (
                json!({"store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 64}),
                "input",
            ),
        };
        body["model"] = json!("gpt-test");
        body[said] = json!([{"role": "user", "content": "hi"}]);
        assert_eq!(whole.json.as_ref(), Some(&body));
        body["stream"] = json!(true);
        if api == Api::Chat {
            body["stream_options"] = json!({"include_usage": true});
        }
        assert_eq!(streamed.json.as_ref(), Some(&body));
    }
}

#[tokio::test]
async fn client_settings_are_sent() {
    for api in APIS {
        let server = OpenAiServer::builder().api_key("another").start(["a"]).await.unwrap();
        let provider = OpenAi::new("another").base_url(server.url());
        let provider = api.with(provider).organization("org-1").project("proj-1");
        let provider = provider.system_role(SystemRole::System).disable_parallel_tool_calls();
        let mut request = ask("hi");
        request.model = "of-the-request".into();
        request.tools = vec![look()];
        request.messages.insert(0, Message::system("be kind"));
        provider.complete(request).await.unwrap();
        let sent = &server.requests()[0];
        assert_eq!(sent.header("openai-organization"), Some("org-1"));
        assert_eq!(sent.header("openai-project"), Some("proj-1"));
        let body = sent.json.as_ref().unwrap();
        assert_eq!(body["model"], "of-the-request");
        assert_eq!(body["parallel_tool_calls"], false);
        let said = if api == Api::Chat { "messages" } else { "input" };
        assert_eq!(body[said][0], json!({"role": "system", "content": "be kind"}));
    }
}

#[tokio::test]
async fn every_base_url_format_leads_to_the_same_path() {
    for api in APIS {
        let server = start(["a", "b", "c", "d"]).await;
        for end in ["", "/", "/v1", "/v1/"] {
            let provider = api.provider(format!("{}{end}", server.url()));
            provider.complete(ask("hi")).await.unwrap();
        }
        assert!(server.requests().iter().all(|sent| sent.path == api.path()));
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn echo_reasoning_sends_reasoning_back() {
    let builder = OpenAiServer::builder().dialect(Dialect::default().lenient());
    let server = builder.start(["a"]).await.unwrap();
    let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() };
    let mut request = ask("hi");
    let content = vec![thinking, ContentBlock::Text("so".into())];
    request.messages.push(Message { role: Role::Assistant, content });
    request.messages.push(Message::user("and?"));
    let provider = Api::Chat.provider(server.url()).echo_reasoning();
    provider.complete(request).await.unwrap();
    assert_eq!(
        server.bodies()[0]["messages"][1],
        json!({"role": "assistant", "content": "so", "reasoning_content": "hm"})
    );
}

#[tokio::test]
async fn clones_share_connections() {
    let server = start(["a", "b", "c"]).await;
    let provider = Api::Chat.provider(server.url());
    for provider in [provider.clone(), provider.clone().model("another"), provider] {
        provider.complete(ask("hi")).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}
