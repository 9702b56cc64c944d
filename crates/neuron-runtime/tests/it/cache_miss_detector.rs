//! Tests of the cache miss detector with agents, scripted models and Anthropic's loopback server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, AgentBuilder, Conversation, OnLimit};
use neuron_provider_anthropic::Anthropic;
use neuron_runtime::{CacheMiss, CacheMissCause, CacheMissDetector, PrefixChange, PrefixPart};
use neuron_testing::{AnthropicServer, Reply, ScriptedProvider};
use neuron_types::{
    AnswerMetadata, AnswerRoute, CompletionResponse, ContentBlock, ContextEdit, ContextManagement,
    LoopError, Message, ModelCall, ModelLayer, ModelNext, PrepareTurn, ProviderError, ProviderInfo,
    RequestRef, TokenUsage, ToolContext, UsageLimits,
};
use serde_json::json;
use tracing::Level;

use crate::support::*;
use crate::tracing_records::Records;

/// The misses that a detector reported.
#[derive(Clone, Default)]
struct Misses(Arc<Mutex<Vec<CacheMiss>>>);

impl Misses {
    fn detector(&self) -> CacheMissDetector {
        let misses = Arc::clone(&self.0);
        CacheMissDetector::new().on_miss(move |miss| misses.lock().unwrap().push(miss.clone()))
    }

    fn take(&self) -> Vec<CacheMiss> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    #[track_caller]
    fn none(&self) {
        assert_eq!(self.take(), []);
    }

    #[track_caller]
    fn one(&self) -> CacheMiss {
        let mut misses = self.take();
        assert_eq!(misses.len(), 1, "{misses:?}");
        misses.remove(0)
    }

    #[track_caller]
    fn change(&self) -> PrefixChange {
        match self.one().cause {
            CacheMissCause::Changed(change) => change,
            cause => panic!("{cause:?}"),
        }
    }
}

/// Returns a provider with another name, because the rules depend on the vendor.
fn vendor(name: &'static str, replies: impl IntoIterator<Item = Reply>) -> ScriptedProvider {
    ScriptedProvider::new(replies).with_info(ProviderInfo::new(name, "m"))
}

/// Usage of a prompt of 10,000 tokens.
fn usage(read: impl Into<Option<usize>>, written: impl Into<Option<usize>>) -> TokenUsage {
    TokenUsage {
        input_tokens: 10_000,
        output_tokens: 10,
        cache_read_tokens: read.into(),
        cache_creation_tokens: written.into(),
        ..Default::default()
    }
}

fn text(read: impl Into<Option<usize>>) -> Reply {
    Reply::text("ok").usage(usage(read, None))
}

fn act(id: &str, read: impl Into<Option<usize>>) -> Reply {
    Reply::tool_call(id, "act", json!({ "text": "x" })).usage(usage(read, None))
}

fn builder(replies: impl IntoIterator<Item = Reply>, detector: &CacheMissDetector) -> AgentBuilder {
    let tools = registry([Act::new("act", &Log::default()), Act::new("look", &Log::default())]);
    let provider = vendor("openai", replies);
    Agent::builder(provider).tools(tools).hook(detector.clone())
}

/// Runs an agent with a new conversation.
async fn run(builder: AgentBuilder) {
    builder.build().run(&mut Conversation::new(), "go").await.unwrap();
}

#[tokio::test]
async fn hit_is_not_reported_and_a_miss_of_an_unchanged_request_is_an_eviction() {
    let misses = Misses::default();
    run(builder([act("a", 0), act("b", 5_000), text(9_000)], &misses.detector())).await;
    misses.none();
    run(builder([act("a", 0), text(4_999)], &misses.detector()).name("clerk")).await;
    let miss = misses.one();
    assert_eq!(miss.cause, CacheMissCause::Evicted);
    assert_eq!((miss.expected_tokens, miss.read_tokens), (5_000, 4_999));
    assert_eq!((&*miss.agent, miss.turn), ("clerk", 1));
    assert_eq!((&*miss.model.provider, &*miss.model.model), ("openai", "m"));
    assert!(!miss.run_id.is_empty());
}

#[tokio::test]
async fn changed_order_of_tools_is_reported_with_the_first_tool_that_moved() {
    let (misses, log) = (Misses::default(), Log::default());
    let (detector, mut conversation) = (misses.detector(), Conversation::new());
    for names in [["act", "look", "wait"], ["act", "wait", "look"]] {
        let tools = registry(names.map(|name| Act::new(name, &log)));
        let agent = builder([text(0)], &detector).tools(tools).build();
        agent.run(&mut conversation, "go").await.unwrap();
    }
    let change = misses.change();
    assert_eq!(change.part, PrefixPart::Tool { name: "wait".into() });
    assert_eq!((&*change.path, change.offset_in_value), ("tools[1].name", 0));
}

#[tokio::test]
async fn changed_system_prompt_is_reported_with_its_first_byte() {
    let misses = Misses::default();
    let (detector, mut conversation) = (misses.detector(), Conversation::new());
    for hour in ["09", "10"] {
        let agent = builder([text(0)], &detector).system_prompt(format!("It is {hour}:15."));
        agent.build().run(&mut conversation, "go").await.unwrap();
    }
    let change = misses.change();
    assert_eq!((&change.part, &*change.path), (&PrefixPart::System, "system[0]"));
    assert_eq!(change.offset_in_value, "It is ".len());
}

/// A layer that changes the first message from the second call of a run on.
struct Rewrite;

impl ModelLayer for Rewrite {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let mut messages = call.request.messages.to_vec();
        if call.run.turns > 0 {
            messages[0] = Message::user("gone");
        }
        next.run(call.with_request(RequestRef { messages: &messages, ..call.request })).await
    }
}

#[tokio::test]
async fn changed_message_is_reported_with_its_first_byte() {
    let misses = Misses::default();
    run(builder([act("a", 0), act("b", 0), text(5_000)], &misses.detector()).layer(Rewrite)).await;
    let change = misses.change();
    assert_eq!(change.part, PrefixPart::Message { index: 0 });
    assert_eq!((&*change.path, change.offset_in_value), ("messages[0].content[0].text", 2));
    let tools = r#"{"name":"act","description":"","input_schema":{"properties":{"path":{},"text":{}},"type":"object"}}"#;
    let tools = format!("{tools},{}", tools.replace("act", "look"));
    let head = format!(r#"{{"tools":[{tools}],"system":[],"settings":{{}},"messages":["#);
    let message = r#"{"role":"user","content":[{"type":"text","text":"go"#;
    assert_eq!(change.offset, head.len() + message.len());
}

#[tokio::test]
async fn changed_message_between_two_runs_of_a_session_is_reported() {
    for session in ["", "chat-1"] {
        let misses = Misses::default();
        let agent = builder([text(0), text(0)], &misses.detector()).build();
        let ctx = ToolContext { session_id: session.into(), ..Default::default() };
        agent.run(&mut Conversation::new(), "It is 09:15.").context(&ctx).await.unwrap();
        agent.run(&mut Conversation::new(), "It is 09:16.").context(&ctx).await.unwrap();
        if session.is_empty() {
            // Without a session, this is another conversation.
            misses.none();
        } else {
            let change = misses.change();
            assert_eq!(change.offset_in_value, "It is 09:1".len());
        }
    }
}

#[tokio::test]
async fn compaction_is_reported_as_the_cause() {
    let misses = Misses::default();
    let long = TokenUsage { input_tokens: 30_000, ..usage(9_000, None) };
    let replies = [act("a", 0), act("b", 5_000), act("c", 0).usage(long), text(100)];
    // The third response exceeds the budget, so the last call sends fewer messages.
    let strategy = SlidingWindowStrategy::new(2, 20_000);
    run(builder(replies, &misses.detector()).context(strategy)).await;
    assert_eq!(misses.one().cause, CacheMissCause::Compacted);
}

#[tokio::test]
async fn summary_of_the_vendor_is_a_compaction() {
    let misses = Misses::default();
    let summary = ContentBlock::Compaction { content: "so far".into() };
    let call = ContentBlock::ToolUse { id: "a".into(), name: "act".into(), input: json!({}) };
    let reply = Reply::message(vec![summary, call]).usage(usage(0, None));
    run(builder([reply, text(0)], &misses.detector())).await;
    assert_eq!(misses.one().cause, CacheMissCause::Compacted);
}

#[tokio::test]
async fn prompt_below_the_minimum_is_no_miss() {
    let misses = Misses::default();
    let short = |reply: Reply| reply.usage(TokenUsage { input_tokens: 1_000, ..usage(0, None) });
    let replies = || [short(act("a", 0)), short(text(0))];
    run(builder(replies(), &misses.detector())).await;
    misses.none();
    let usage = TokenUsage { input_tokens: 4_000, ..usage(0, None) };
    let gemini = vendor("gcp.gemini", replies().map(|it| it.usage(usage.clone())));
    let agent = Agent::builder(gemini).tools(registry([Act::new("act", &Log::default())]));
    run(agent.hook(misses.detector())).await;
    misses.none();
}

#[tokio::test]
async fn other_model_and_other_route_are_the_cause() {
    let misses = Misses::default();
    let change = |turn: &mut neuron_types::TurnSetup<'_>| {
        turn.settings.model = if turn.run.turns == 0 { "large" } else { "small" }.into();
    };
    let agent = builder([act("a", 0), text(0)], &misses.detector());
    run(agent.layer(PrepareTurn::new(change))).await;
    let miss = misses.one();
    let CacheMissCause::OtherModel { previous } = miss.cause else { panic!("{miss:?}") };
    assert_eq!((&*previous.model, &*miss.model.model), ("large", "small"));

    let routed = |reply: Reply, content: Message, name: &str| {
        let mut metadata = AnswerMetadata::default();
        metadata.route = Some(AnswerRoute::new(name, "openai"));
        let content = content.with_metadata(&metadata).content;
        drop(reply);
        Reply::message(content).usage(usage(0, None))
    };
    let call = ContentBlock::ToolUse { id: "a".into(), name: "act".into(), input: json!({}) };
    let call = Message { content: vec![call], ..Message::assistant("") };
    let replies = [routed(text(0), call, "a"), routed(text(0), Message::assistant("ok"), "b")];
    run(builder(replies, &misses.detector())).await;
    let miss = misses.one();
    let CacheMissCause::OtherModel { previous } = miss.cause else { panic!("{miss:?}") };
    assert_eq!((&*previous.route, &*miss.model.route), ("a", "b"));
    assert_eq!(miss.model.provider, "openai");
}

#[tokio::test(start_paused = true)]
async fn miss_after_the_lifetime_is_expired() {
    let misses = Misses::default();
    let slow = Reply::tool_call("a", "act", json!({ "delay": 301_000 })).usage(usage(0, None));
    run(builder([slow, text(0)], &misses.detector())).await;
    let after = Duration::from_secs(301);
    assert_eq!(misses.one().cause, CacheMissCause::Expired { after });
    let slow = Reply::tool_call("a", "act", json!({ "delay": 299_000 })).usage(usage(0, None));
    run(builder([slow, text(0)], &misses.detector())).await;
    assert_eq!(misses.one().cause, CacheMissCause::Evicted);
}

#[tokio::test]
async fn response_without_cache_tokens_is_judged_only_after_one_with_them() {
    let misses = Misses::default();
    run(builder([act("a", None), text(None)], &misses.detector())).await;
    misses.none();
    // Gemini leaves out the number if it is zero.
    run(builder([act("a", None), act("b", 8_000), text(None)], &misses.detector())).await;
    assert_eq!(misses.one().read_tokens, 0);
}

#[tokio::test]
async fn streamed_calls_are_watched() {
    let misses = Misses::default();
    let agent = builder([act("a", 0), text(0)], &misses.detector()).build();
    let mut conversation = Conversation::new();
    let mut events = agent.run(&mut conversation, "go").stream();
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    assert_eq!(misses.one().cause, CacheMissCause::Evicted);
}

#[tokio::test(start_paused = true)]
async fn failed_and_dropped_calls_are_ignored() {
    let misses = Misses::default();
    let failed = Reply::error(ProviderError::InvalidRequest("no".into()));
    let agent = builder([text(0), Reply::hang(), failed, text(5_000), text(0)], &misses.detector());
    let (agent, mut conversation) = (agent.build(), Conversation::new());
    agent.run(&mut conversation, "one").await.unwrap();
    let mut dropped = conversation.clone();
    let hanging = agent.run(&mut dropped, "two");
    assert!(tokio::time::timeout(Duration::from_millis(1), hanging).await.is_err());
    agent.run(&mut conversation.clone(), "three").await.unwrap_err();
    agent.run(&mut conversation, "four").await.unwrap();
    misses.none();
    agent.run(&mut conversation, "five").await.unwrap();
    assert_eq!(misses.one().cause, CacheMissCause::Evicted);
}

#[tokio::test(start_paused = true)]
async fn concurrent_conversations_are_compared_with_themselves() {
    let misses = Misses::default();
    let detector = misses.detector();
    let runs = ["a", "b", "c"].map(|name| {
        let replies = (0..5).map(|turn| match turn {
            4 => text(5_000),
            0 => act("x", 0),
            _ => act("x", 5_000),
        });
        let replies = replies.map(|reply| reply.delay(Duration::from_millis(1)));
        let agent = builder(replies, &detector).system_prompt(name).build();
        async move { agent.run(&mut Conversation::new(), "go").await.unwrap() }
    });
    futures_util::future::join_all(runs).await;
    misses.none();
}

#[tokio::test]
async fn more_blocks_than_anthropic_looks_back_are_the_cause() {
    for (calls, is_many) in [(9, false), (10, true)] {
        let misses = Misses::default();
        let ids: Vec<String> = (0..calls).map(|id| id.to_string()).collect();
        let all = ids.iter().map(|id| (&**id, "act", json!({})));
        let replies =
            [Reply::tool_calls(all).usage(usage(0, 9_000)), Reply::text("ok").usage(usage(0, 0))];
        let provider = vendor("anthropic", replies);
        let tools = registry([Act::new("act", &Log::default())]);
        run(Agent::builder(provider).tools(tools).hook(misses.detector())).await;
        let cause = misses.one().cause;
        let expected = match is_many {
            true => CacheMissCause::ManyNewBlocks { blocks: 20 },
            false => CacheMissCause::Evicted,
        };
        assert_eq!(cause, expected);
    }
}

/// Regression test. Before the fix, the cause was an eviction.
#[tokio::test]
async fn missing_breakpoint_is_the_cause_if_the_vendor_needs_it() {
    for (name, expected) in
        [("anthropic", CacheMissCause::FewerBreakpoints), ("openai", CacheMissCause::Evicted)]
    {
        let misses = Misses::default();
        let replies = [act("a", 0).usage(usage(0, 9_000)), text(0)];
        let provider = vendor(name, replies);
        let tools = registry([Act::new("act", &Log::default())]);
        let agent = Agent::builder(provider).tools(tools).hook(misses.detector());
        run(agent.prepare_turn(|turn| {
            if turn.run.turns == 1 {
                turn.settings.cache = None;
            }
        }))
        .await;
        assert_eq!(misses.one().cause, expected, "{name}");
    }
}

/// Regression test. Before the fix, the cause was an eviction.
#[tokio::test]
async fn edit_of_the_vendor_is_a_usual_cause() {
    for (name, expected) in
        [("anthropic", CacheMissCause::EditedByVendor), ("openai", CacheMissCause::Evicted)]
    {
        let misses = Misses::default();
        let replies = [act("a", 0).usage(usage(0, 9_000)), text(0)];
        let tools = registry([Act::new("act", &Log::default())]);
        let agent = Agent::builder(vendor(name, replies)).tools(tools);
        let edit = ContextEdit::Raw { json: json!({ "type": "clear_tool_uses_20250919" }) };
        let agent = agent.hook(misses.detector()).prepare_turn(move |turn| {
            let edits = vec![edit.clone()];
            turn.settings.context_management = Some(ContextManagement { edits });
        });
        run(agent).await;
        let cause = misses.one().cause;
        assert_eq!(cause.is_usual(), name == "anthropic");
        assert_eq!(cause, expected);
    }
}

/// Regression test. Before the fix, the cause was an eviction.
#[tokio::test]
async fn thinking_that_old_models_drop_is_a_usual_cause() {
    for (model, expected) in [
        ("claude-haiku-4-5", CacheMissCause::EditedByVendor),
        ("claude-sonnet-4-6", CacheMissCause::Evicted),
    ] {
        let misses = Misses::default();
        let thinking = ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() };
        let call = ContentBlock::ToolUse { id: "a".into(), name: "act".into(), input: json!({}) };
        let replies = [
            Reply::message(vec![thinking, call]).usage(usage(0, 8_000)),
            text(0).usage(usage(8_000, 500)),
            text(0).usage(usage(2_000, 7_000)),
        ];
        let tools = registry([Act::new("act", &Log::default())]);
        let agent = Agent::builder(vendor("anthropic", replies)).tools(tools);
        let agent = agent.hook(misses.detector()).prepare_turn(move |turn| {
            turn.settings.model = model.into();
        });
        let (agent, mut conversation) = (agent.build(), Conversation::new());
        agent.run(&mut conversation, "one").await.unwrap();
        misses.none();
        agent.run(&mut conversation, "two").await.unwrap();
        assert_eq!(misses.one().cause, expected, "{model}");
    }
}

#[tokio::test]
async fn tool_choice_of_the_last_call_is_reported_as_a_setting() {
    let misses = Misses::default();
    let limits = UsageLimits::default().with_request_limit(1);
    let agent = builder([act("a", 0), text(0)], &misses.detector()).usage_limits(limits);
    run(agent.config(|config| config.on_limit = OnLimit::Finalize)).await;
    let change = misses.change();
    assert_eq!(change.path, "settings");
    assert!(matches!(change.part, PrefixPart::Setting { .. }), "{change:?}");
}

#[tokio::test(start_paused = true)]
async fn log_names_the_part_and_quotes_nothing() {
    let (records, _guard) = Records::start();
    let detector = CacheMissDetector::new();
    let mut conversation = Conversation::new();
    for secret in ["hunter2", "hunter3"] {
        let agent = builder([text(0)], &detector).system_prompt(secret).build();
        agent.run(&mut conversation, "go").await.unwrap();
    }
    let slow = Reply::tool_call("a", "act", json!({ "delay": 301_000 })).usage(usage(0, None));
    run(builder([slow, text(0)], &detector)).await;
    let events = records.events();
    let [changed, expired] =
        &events.iter().filter(|event| event.fields.contains_key("cause")).collect::<Vec<_>>()[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((changed.level, expired.level), (Level::WARN, Level::DEBUG));
    assert!(changed.fields["cause"].starts_with("the system prompt differs"), "{changed:?}");
    assert!(expired.fields["cause"].contains("301 seconds"), "{expired:?}");
    assert!(changed.within.is_empty() && !format!("{events:?}").contains("hunter"));
}

/// An agent at Anthropic's server: the request has the breakpoint, and the server's usage decides.
#[tokio::test]
async fn agent_at_anthropics_server_reports_the_changed_byte() {
    let reply = |reply: Reply, read, written| reply.usage(usage(read, written));
    let server = AnthropicServer::start([
        reply(act("toolu_1", 0), 0, 8_000),
        reply(Reply::text("one"), 8_000, 500),
        reply(Reply::text("two"), 8_500, 500),
        reply(Reply::text("three"), 0, 9_500),
    ])
    .await
    .unwrap();
    let (misses, mut conversation) = (Misses::default(), Conversation::new());
    let detector = misses.detector();
    let agent = |system: &str| {
        let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
        let tools = registry([Act::new("act", &Log::default())]);
        Agent::builder(provider).tools(tools).system_prompt(system).hook(detector.clone()).build()
    };
    for (system, question) in [("Day 1.", "a"), ("Day 1.", "b")] {
        agent(system).run(&mut conversation, question).await.unwrap();
    }
    misses.none();
    agent("Day 2.").run(&mut conversation, "c").await.unwrap();
    let miss = misses.one();
    assert_eq!((miss.expected_tokens, miss.read_tokens), (9_000, 0));
    assert_eq!(miss.model.provider, "anthropic");
    let CacheMissCause::Changed(change) = miss.cause else { panic!("{miss:?}") };
    assert_eq!((change.part, change.offset_in_value), (PrefixPart::System, "Day ".len()));
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 4);
    assert!(bodies.iter().all(|body| body["cache_control"] == json!({ "type": "ephemeral" })));
}
