//! Text, position and number of the system messages that injectors add.

use std::sync::Arc;

use neuron_context::{ContextSection, InjectionTrigger, PersistentContext, SystemInjector};
use neuron_loop::Conversation;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CacheControl, ContextError, ContextStrategy, HookAction, HookError, HookEvent, InjectionPoint,
    Injector, Message, ObservabilityHook, ProviderError, Role, SessionState, StopReason,
    SystemBlock, SystemPrompt, ToolContext,
};
use serde_json::json;

use crate::support::*;

fn injector(rules: impl IntoIterator<Item = (InjectionTrigger, &'static str)>) -> SystemInjector {
    let mut injector = SystemInjector::new();
    for (trigger, content) in rules {
        injector.add_rule(trigger, content.into());
    }
    injector
}

/// Returns the history as one string. Each system message becomes its text in parentheses, and each other message a
/// dot.
fn marks(messages: &[Message]) -> String {
    let mark = |message: &Message| match message.role {
        Role::System => format!("({})", message.text()),
        _ => ".".into(),
    };
    messages.iter().map(mark).collect()
}

#[tokio::test]
async fn threshold_reminder_is_added_once_while_visible() {
    let replies = (0..4).map(|_| calls([json!({})])).chain([Reply::text("done")]);
    let setup = setup(replies);
    // The threshold is reached from the second turn on.
    let rule = (InjectionTrigger::OnTokenThreshold(15), "long");
    let mut agent = setup.builder.injector(injector([rule])).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(marks(agent.messages()), "...(long).......");
}

#[tokio::test]
async fn injector_receives_the_session_state() {
    let in_srv = |state: &SessionState| {
        state.cwd.starts_with("/srv")
            && state.event_count == 1
            && state.token_usage.input_tokens > 0
    };
    let rule = || (InjectionTrigger::Custom(Box::new(in_srv)), "careful");
    let ctx = ToolContext { cwd: "/srv/a".into(), ..Default::default() };
    let first = setup([calls([json!({})]), Reply::text("done")]);
    let mut agent = first.builder.injector(injector([rule()])).build();
    agent.run_text("go", &ctx).await.unwrap();
    assert_eq!(marks(agent.messages()), "...(careful).");

    let mut ctx = ToolContext::default();
    let custom = [("mode".to_owned(), json!("strict"))].into();
    ctx.extensions.insert(SessionState { custom, ..Default::default() });
    let is_strict = |state: &SessionState| state.custom.get("mode") == Some(&json!("strict"));
    let rule = (InjectionTrigger::Custom(Box::new(is_strict)), "strict");
    let mut agent = setup(["done"]).builder.injector(injector([rule])).build();
    agent.run_text("go", &ctx).await.unwrap();
    assert_eq!(marks(agent.messages()), ".(strict).", "the session that the caller gave");
}

/// A context strategy that compacts more than seven messages, and keeps all of them.
struct KeepsAll;

impl ContextStrategy for KeepsAll {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > 7
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

/// Pinned messages, and messages with the same text that the loop did not add, are no reminders.
#[tokio::test]
async fn newest_of_equal_reminders_stays() {
    let system = |text: &str| match text.strip_suffix('!') {
        Some(text) => Message::system(text).pinned(),
        None => Message::system(text),
    };
    let mut messages = ["rules", "brief", "brief!", "rules", "brief"].map(system).to_vec();
    let others = [Message::user("brief"), Message::assistant("brief"), Message::user("brief")];
    messages.extend(others.clone());
    let mut stored = serde_json::to_value(Conversation::from(messages)).unwrap();
    stored["said"] = json!(["brief"]);
    let mut agent = Chat::builder(ScriptedProvider::new(["done"]), KeepsAll).build();
    agent.conversation = serde_json::from_value(stored).unwrap();
    agent.continue_run(&ToolContext::default()).await.unwrap();
    let mut kept = ["rules", "brief!", "rules", "brief"].map(system).to_vec();
    kept.extend(others);
    kept.push(Message::assistant("done"));
    assert_eq!(agent.messages(), kept);
}

#[tokio::test]
async fn repeated_call_has_one_reminder() {
    struct Always;
    impl Injector for Always {
        fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
            vec![format!("turn {}", point.turn), String::new()]
        }
    }
    let down = ProviderError::ServiceUnavailable("529".into());
    let setup = setup([
        Reply::error(down),
        Reply::text("paused").stop_reason(StopReason::PauseTurn),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.injector(Always).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap_err();
    agent.run_text("again", &ctx).await.unwrap();
    assert_eq!(marks(agent.messages()), ".(turn 0)...", "and a paused turn is not interrupted");
}

#[tokio::test]
async fn injector_of_a_hook_receives_the_responses_of_the_run_and_the_tools() {
    #[derive(Clone)]
    struct Describes;
    impl ObservabilityHook for Describes {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Ok(HookAction::Continue)
        }
        fn injector(&self) -> Option<Arc<dyn Injector>> {
            Some(Arc::new(self.clone()))
        }
    }
    impl Injector for Describes {
        fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
            let tools = point.tools.visible.iter().filter(|tool| tool.name == "act").count();
            vec![format!("{} of {}, {tools} tool", point.run_turns, point.turn)]
        }
    }
    let setup = setup([calls([json!({})]), Reply::text("1"), Reply::text("2")]);
    let mut agent = setup.builder.hook(Describes).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    agent.run_text("go on", &ToolContext::default()).await.unwrap();
    let expected = ".(0 of 0, 1 tool)..(1 of 1, 1 tool)..(0 of 2, 1 tool).";
    assert_eq!(marks(agent.messages()), expected);
}

#[tokio::test]
async fn persistent_context_follows_the_system_prompt() {
    let context = || {
        let mut context = PersistentContext::new();
        let (label, content) = ("Role".into(), "You are terse.".into());
        context.add_section(ContextSection { label, content, priority: 0 });
        context
    };
    let setup1 = setup(["done"]);
    let prompt = SystemPrompt::from("You calculate.").and(context()).and("Be kind.");
    let mut agent = setup1.builder.system_prompt(prompt).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let expected = "You calculate.\n\n## Role\nYou are terse.\n\nBe kind.";
    assert_eq!(setup1.provider.requests()[0].system, Some(expected.into()));

    let block = |text: &str, cache_control| SystemBlock { text: text.into(), cache_control };
    let first = vec![block("You calculate.", Some(CacheControl::default()))];
    let setup2 = setup(["done"]);
    let prompt = SystemPrompt::from(first.clone()).and(context());
    let mut agent = setup2.builder.system_prompt(prompt).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let blocks = [first, vec![block("## Role\nYou are terse.", None)]].concat();
    assert_eq!(setup2.provider.requests()[0].system, Some(SystemPrompt::Blocks(blocks)));

    let setup3 = setup(["done"]);
    let mut agent = setup3.builder.system_prompt(PersistentContext::new()).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(setup3.provider.requests()[0].system, None);
}
