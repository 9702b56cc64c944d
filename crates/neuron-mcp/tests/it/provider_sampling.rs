//! Tests of `ProviderSampling`, which answers sampling requests of servers with the model of a provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_mcp::{
    AllowAll, McpClient, McpError, ModelPreferences, ProviderSampling, SamplingDecision,
    SamplingHandler, SamplingPolicy, SamplingRefused, SamplingRequest, SamplingResponse,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    BoxedProvider, CompletionRequest, ContentBlock, Message, ProviderError, Role, StopReason,
    ToolChoice, ToolDefinition,
};
use serde_json::{Value, json};

use crate::fake_server::{Answer, FakeServer};

/// Returns a sampling request with one user message.
fn asks(text: &str) -> SamplingRequest {
    SamplingRequest { messages: vec![Message::user(text)], max_tokens: 100, ..Default::default() }
}

fn definition(name: &str, input_schema: Value) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: "Looks".into(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

fn call(name: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: "c1".into(), name: name.into(), input: json!({}) }
}

/// Asserts that a request was refused for this reason.
#[track_caller]
fn check_refused<T: std::fmt::Debug>(result: Result<T, McpError>, reason: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), format!("sampling was refused: {reason}"));
    let McpError::Other(source) = error else { panic!("another error") };
    assert_eq!(source.downcast_ref::<SamplingRefused>().unwrap().reason, reason);
}

#[tokio::test]
async fn request_and_response_pass_through_unchanged() {
    let provider = ScriptedProvider::new([Reply::text("hello").model("m-1")]);
    let sampling = ProviderSampling::new(BoxedProvider::new(provider.clone()), AllowAll);
    let request = SamplingRequest {
        system_prompt: Some("Be brief.".into()),
        temperature: Some(0.5),
        stop_sequences: vec!["END".into()],
        tool_choice: Some(ToolChoice::None),
        ..asks("hi")
    };
    let response = sampling.sample(request).await.unwrap();
    assert_eq!(
        response,
        SamplingResponse {
            message: Message::assistant("hello"),
            model: "m-1".into(),
            stop_reason: Some(StopReason::EndTurn),
        }
    );
    assert_eq!(
        provider.requests(),
        [CompletionRequest {
            messages: vec![Message::user("hi")],
            system: Some("Be brief.".into()),
            max_tokens: Some(100),
            temperature: Some(0.5),
            stop_sequences: vec!["END".into()],
            tool_choice: Some(ToolChoice::None),
            ..CompletionRequest::default()
        }]
    );
}

#[tokio::test]
async fn first_matching_hint_selects_the_model() {
    let hints: [(&[&str], &str); 7] = [
        (&[], "standard"),
        (&["gpt"], "standard"),
        (&[""], "standard"),
        (&["Claude-Haiku"], "small"),
        (&["hai"], "small"),
        (&["gpt", "opus-4", "haiku"], "large"),
        (&["haiku", "opus"], "small"),
    ];
    let provider = ScriptedProvider::new(hints.map(|_| Reply::text("a")));
    let sampling = ProviderSampling::new(provider.clone(), AllowAll)
        .with_model("standard")
        .with_model_for("haiku", "small")
        .with_model_for("Opus", "large");
    for (hints, _) in hints {
        let hints = hints.iter().map(|hint| (*hint).to_owned()).collect();
        let model_preferences = ModelPreferences { hints, ..Default::default() };
        sampling.sample(SamplingRequest { model_preferences, ..asks("hi") }).await.unwrap();
    }
    let models: Vec<_> = provider.requests().into_iter().map(|request| request.model).collect();
    assert_eq!(models, hints.map(|(_, model)| model));
}

#[tokio::test]
async fn tokens_and_requests_are_limited() {
    let provider = ScriptedProvider::new(["a", "b", "c"].map(Reply::text));
    let sampling =
        ProviderSampling::new(provider.clone(), AllowAll).with_max_tokens(50).with_max_requests(3);
    for max_tokens in [20, 1_000_000, 0] {
        sampling.sample(SamplingRequest { max_tokens, ..asks("hi") }).await.unwrap();
    }
    check_refused(sampling.sample(asks("hi")).await, "no more requests are allowed");
    assert_eq!(sampling.requests(), 3);
    let tokens: Vec<_> = provider.requests().iter().map(|request| request.max_tokens).collect();
    assert_eq!(tokens, [Some(20), Some(50), Some(50)]);

    let provider = ScriptedProvider::new([Reply::text("a")]);
    let sampling = ProviderSampling::new(provider.clone(), AllowAll);
    sampling.sample(SamplingRequest { max_tokens: u32::MAX, ..asks("hi") }).await.unwrap();
    assert_eq!(provider.requests()[0].max_tokens, Some(4096));
}

/// A policy that refuses requests with the word "password" and responses with the word "secret". Other requests and
/// responses are allowed with a changed text.
#[derive(Default)]
struct Censor {
    answers: AtomicUsize,
}

impl SamplingPolicy for Censor {
    async fn review_request(
        &self,
        mut request: SamplingRequest,
    ) -> SamplingDecision<SamplingRequest> {
        tokio::task::yield_now().await;
        let text = request.messages[0].text();
        if text.contains("password") {
            return SamplingDecision::Refuse("no passwords".into());
        }
        request.messages = vec![Message::user(text.replace("please ", ""))];
        SamplingDecision::Allow(request)
    }

    async fn review_response(
        &self,
        request: &SamplingRequest,
        mut response: SamplingResponse,
    ) -> SamplingDecision<SamplingResponse> {
        assert!(!request.messages[0].text().contains("please"));
        self.answers.fetch_add(1, Ordering::Relaxed);
        if response.message.text().contains("secret") {
            return SamplingDecision::Refuse("the answer is a secret".into());
        }
        response.message = Message::assistant(response.message.text().to_uppercase());
        SamplingDecision::Allow(response)
    }
}

#[tokio::test]
async fn policy_refuses_and_changes_requests_and_responses() {
    let provider = ScriptedProvider::new(["hello", "a secret"].map(Reply::text));
    let sampling = ProviderSampling::new(provider.clone(), Censor::default()).with_max_requests(2);
    check_refused(sampling.sample(asks("your password?")).await, "no passwords");
    assert_eq!((provider.calls(), sampling.requests()), (0, 0));
    let response = sampling.sample(asks("please say hello")).await.unwrap();
    assert_eq!(response.message, Message::assistant("HELLO"));
    assert_eq!(provider.requests()[0].messages, [Message::user("say hello")]);
    check_refused(sampling.sample(asks("and?")).await, "the answer is a secret");
}

#[tokio::test]
async fn async_function_works_as_policy() {
    async fn nobody(request: SamplingRequest) -> SamplingDecision<SamplingRequest> {
        SamplingDecision::Refuse(format!("{} messages", request.messages.len()))
    }
    let provider = ScriptedProvider::new([Reply::text("a")]);
    let sampling = ProviderSampling::new(provider.clone(), nobody);
    check_refused(sampling.sample(asks("hi")).await, "1 messages");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let sampling = ProviderSampling::new(provider, move |request| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::Relaxed);
            SamplingDecision::Allow(request)
        }
    });
    sampling.sample(asks("hi")).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn provider_error_is_not_revealed_to_the_server() {
    let error = ProviderError::Authentication("the key of account 4711 is invalid".into());
    let sampling = ProviderSampling::new(ScriptedProvider::new([Reply::error(error)]), AllowAll);
    let error = sampling.sample(asks("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "the client's model failed");
}

#[tokio::test]
async fn tool_schemas_are_adapted_and_names_stay() {
    let provider = ScriptedProvider::new([Reply::tool_call("c2", "fs.read", json!({ "a": 1 }))]);
    let sampling = ProviderSampling::new(provider.clone(), AllowAll);
    let result =
        ContentBlock::ToolResult { tool_use_id: "c1".into(), content: vec![], is_error: false };
    let conversation = |name: &str| {
        vec![
            Message::user("look"),
            Message { role: Role::Assistant, content: vec![call(name)] },
            Message { role: Role::User, content: vec![result.clone()] },
        ]
    };
    let request = SamplingRequest {
        messages: conversation("fs.read"),
        tools: vec![
            definition("fs.read", json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
            definition("plain", json!({ "type": "object", "properties": {} })),
        ],
        tool_choice: Some(ToolChoice::Specific { name: "fs.read".into() }),
        ..asks("")
    };
    let response = sampling.sample(request).await.unwrap();
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
    let calls: Vec<_> = response.message.tool_uses().map(|call| call.name).collect();
    assert_eq!(calls, ["fs.read"]);

    let request = &provider.requests()[0];
    assert_eq!(request.messages, conversation("fs.read"));
    let empty = json!({ "type": "object", "properties": {} });
    let tools = [definition("fs.read", empty.clone()), definition("plain", empty)];
    assert_eq!(request.tools, tools);
    assert_eq!(request.tool_choice, Some(ToolChoice::Specific { name: "fs.read".into() }));
}

#[tokio::test]
async fn sampling_works_over_the_protocol() {
    let provider = ScriptedProvider::new([Reply::text("Paris").model("m-1")]);
    let sampling = ProviderSampling::new(provider.clone(), Censor::default());
    let builder = McpClient::builder().sampling(sampling);
    let (server, _client) = FakeServer::start(builder, "fake", [], |_| Answer::text("")).await;
    let question = |text: &str| {
        json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
            "maxTokens": 10,
        })
    };
    let answer = server.ask("sampling/createMessage", question("please name a city")).await;
    assert_eq!(
        answer["result"],
        json!({
            "role": "assistant",
            "content": { "type": "text", "text": "PARIS" },
            "model": "m-1",
            "stopReason": "endTurn",
        })
    );
    assert_eq!(provider.requests()[0].max_tokens, Some(10));
    let answer = server.ask("sampling/createMessage", question("your password?")).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("sampling was refused: no passwords"), "{answer}");
}
