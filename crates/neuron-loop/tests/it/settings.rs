//! The settings of model requests. The builder sets them, and they can be changed on the agent.

use neuron_loop::{LoopConfig, RequestSettings};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, ContextEdit, ContextManagement, HookAction, HookError, HookEvent, HookScope,
    Message, ObservabilityHook, ReasoningEffort, ResponseFormat, SystemPrompt, ThinkingConfig,
    ToolChoice, ToolContext,
};
use serde_json::json;

use crate::support::*;

fn management() -> ContextManagement {
    ContextManagement { edits: vec![ContextEdit::Compact { strategy: "compact".into() }] }
}

/// Returns a request in which every setting has a distinct value.
fn full(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest {
        model: "large".into(),
        messages,
        system: Some("Be brief.".into()),
        tools: registry(&Log::default()).definitions(),
        max_tokens: Some(1),
        temperature: Some(0.25),
        top_p: Some(0.75),
        stop_sequences: vec!["END".into(), "FIN".into()],
        tool_choice: Some(ToolChoice::Auto),
        response_format: Some(ResponseFormat::JsonObject),
        thinking: Some(ThinkingConfig::Adaptive),
        reasoning_effort: Some(ReasoningEffort::High),
        extra: Some(json!({"service_tier": "flex"})),
        context_management: Some(management()),
    }
}

#[tokio::test]
async fn builder_settings_are_sent_in_every_request() {
    for way in WAYS {
        let setup = setup([calls([json!({})]), Reply::text("done")]);
        let mut agent = setup
            .builder
            .system_prompt("Be brief.")
            .model("large")
            .max_tokens(1)
            .temperature(0.25)
            .top_p(0.75)
            .stop_sequences(["END", "FIN"])
            .tool_choice(ToolChoice::Auto)
            .request(|request| {
                request.response_format = Some(ResponseFormat::JsonObject);
                request.thinking = Some(ThinkingConfig::Adaptive);
                request.reasoning_effort = Some(ReasoningEffort::High);
                request.extra = Some(json!({"service_tier": "flex"}));
                request.context_management = Some(management());
            })
            .build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let requests = setup.provider.requests();
        assert_eq!(requests[0], full(result.messages[..1].to_vec()), "{way:?}");
        assert_eq!(requests[1], full(result.messages[..3].to_vec()), "{way:?}");
        assert_eq!(agent.config().request.model, "large");
    }
}

#[tokio::test]
async fn settings_of_a_whole_configuration_are_sent() {
    let provider = ScriptedProvider::new([Reply::text("hi")]);
    let request = RequestSettings { max_tokens: Some(5), ..Default::default() };
    let config = LoopConfig { request: request.clone(), ..Default::default() };
    let mut agent = Chat::builder(provider.clone(), window()).config(config).build();
    agent.run_text("hello", &ToolContext::default()).await.unwrap();
    let messages = vec![Message::user("hello")];
    let expected =
        CompletionRequest { messages, max_tokens: Some(5), ..CompletionRequest::default() };
    assert_eq!((provider.requests()[0].clone(), &agent.config().request), (expected, &request));
}

#[tokio::test]
async fn changed_settings_apply_from_the_next_call() {
    for way in WAYS {
        let setup = setup((0..3).map(|_| Reply::text("hi")));
        let mut agent =
            setup.builder.model("small").temperature(1.0).system_prompt("Be brief.").build();
        let ctx = ToolContext::default();
        run(way, &mut agent, &ctx).await.unwrap();
        let mut config = agent.config_mut();
        config.request.model = "large".into();
        config.request.temperature = None;
        config.system_prompt = "Be thorough.".into();
        drop(config);
        run(way, &mut agent, &ctx).await.unwrap();
        agent.config_mut().system_prompt = SystemPrompt::default();
        run(way, &mut agent, &ctx).await.unwrap();
        let seen: Vec<_> = setup
            .provider
            .requests()
            .into_iter()
            .map(|request| (request.model, request.temperature, request.system))
            .collect();
        let large = |system: Option<&str>| ("large".to_owned(), None, system.map(Into::into));
        assert_eq!(
            seen,
            [
                ("small".to_owned(), Some(1.0), Some("Be brief.".into())),
                large(Some("Be thorough.")),
                large(None)
            ]
        );
    }
}

/// A hook that logs the model that each event names.
struct Models(Log);

impl ObservabilityHook for Models {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        _: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.0.push(scope.model);
        Ok(HookAction::Continue)
    }
}

#[tokio::test]
async fn hooks_see_the_model_from_the_first_event_on() {
    let log = Log::default();
    let setup = setup([Reply::text("hi"), Reply::text("hi")]);
    let mut agent = setup.builder.model("small").hook(Models(log.clone())).build();
    let ctx = ToolContext::default();
    agent.run_text("hello", &ctx).await.unwrap();
    let events = log.lines().len();
    assert_eq!(log.lines(), vec!["small"; events]);
    agent.config_mut().request.model = "large".into();
    agent.run_text("hello", &ctx).await.unwrap();
    assert_eq!(log.lines()[events..], vec!["large"; events]);
}
