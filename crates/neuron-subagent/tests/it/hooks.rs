//! Tests that the hooks of a parent run receive the events of its sub-agents, and can end the sub-agent and the parent
//! run.

use std::sync::Arc;

use neuron_loop::ToolErrorPolicy;
use neuron_types::{
    BoxedHook, HookAction, HookError, HookEvent, HookScope, LoopError, ObservabilityHook,
    Operation, OperationKind, OperationScope, Outcome, ToolContext, transcript,
};
use serde_json::json;

use crate::support::*;

/// A hook that logs each event with its agent. If the log line starts with the text in `ends`, the hook returns the
/// action in `ends`. Otherwise it returns `Continue`.
#[derive(Clone, Default)]
struct Watch {
    log: Log,
    open: Arc<std::sync::Mutex<Vec<String>>>,
    ends: Option<(&'static str, HookAction)>,
}

fn whose(scope: &HookScope<'_>) -> String {
    let agent = if scope.agent.is_empty() { "-" } else { scope.agent };
    let within = scope
        .within
        .map(|outer| format!(" in {}({} {})", outer.depth, outer.run_id, outer.call_id));
    format!("{agent}:{}{}", scope.run_id, within.unwrap_or_default())
}

impl ObservabilityHook for Watch {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let line = match event {
            HookEvent::RunStart { .. } => "start".to_owned(),
            HookEvent::RunEnd { result } => format!("end {}", result.is_ok()),
            HookEvent::PreLlmCall { .. } => "ask".to_owned(),
            HookEvent::PreToolExecution { tool_name, .. } => format!("call {tool_name}"),
            HookEvent::PostToolExecution { tool_name, .. } => format!("done {tool_name}"),
            HookEvent::ToolError { tool_name, error } => format!("failed {tool_name} {error}"),
            _ => return Ok(HookAction::Continue),
        };
        let line = format!("{line} {}", whose(scope));
        self.log.push(&line);
        Ok(match &self.ends {
            Some((at, action)) if line.starts_with(at) => action.clone(),
            _ => HookAction::Continue,
        })
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let name = match operation.kind {
            OperationKind::Run { .. } => "run".to_owned(),
            OperationKind::ToolCall { call, .. } => format!("tool {}", call.name),
            _ => return None,
        };
        let name = format!("{name} {}", whose(&operation.scope));
        // The span that is current when a scope opens is its parent.
        let around = self.open.lock().unwrap().last().cloned().unwrap_or_default();
        self.log.push(format!("scope {name} inside [{around}]"));
        Some(Box::new(Span { name, open: self.open.clone() }))
    }
}

struct Span {
    name: String,
    open: Arc<std::sync::Mutex<Vec<String>>>,
}

impl OperationScope for Span {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.open.lock().unwrap().push(self.name.clone());
        poll();
        assert_eq!(self.open.lock().unwrap().pop().as_ref(), Some(&self.name));
    }

    fn end(self: Box<Self>, _: Outcome<'_>) {}
}

fn scripts() -> Scripts {
    Scripts::new([
        ("main", vec![asks(&["a"]), text("done")]),
        ("a", vec![calls([("x", "act", json!({}))]), text("a")]),
    ])
}

fn context() -> ToolContext {
    ToolContext { run_id: "r".into(), ..Default::default() }
}

#[tokio::test]
async fn hooks_receive_events_of_agents_with_their_names() {
    for way in WAYS {
        let (scripts, watch) = (scripts(), Watch::default());
        let builder = parent(&scripts, &Log::default(), [("a", with_tools("a", &["act"]))]);
        let mut agent = Chat::new(builder.name("boss").hook(watch.clone()));
        run(way, &mut agent, &context()).await.unwrap();
        let inner = "a:r/0/0/0/c0/a in 1(r c0)";
        let expected = [
            "scope run boss:r inside []",
            "start boss:r",
            "ask boss:r",
            "call a boss:r",
            "scope tool a boss:r inside [run boss:r]",
            &format!("scope run {inner} inside [tool a boss:r]"),
            &format!("start {inner}"),
            &format!("ask {inner}"),
            &format!("call act {inner}"),
            &format!("scope tool act {inner} inside [run {inner}]"),
            &format!("done act {inner}"),
            &format!("ask {inner}"),
            &format!("end true {inner}"),
            "done a boss:r",
            "ask boss:r",
            "end true boss:r",
        ];
        assert_eq!(watch.log.lines(), expected, "{way:?}");
    }
}

#[tokio::test]
async fn hooks_distinguish_deeper_agents_and_can_be_left_out() {
    for inherits in [true, false] {
        let scripts = Scripts::new([
            ("main", vec![asks(&["a"]), text("done")]),
            ("a", vec![asks(&["b"]), text("a")]),
            ("b", vec![text("b")]),
        ]);
        let (watch, own) = (Watch::default(), Watch::default());
        let mut a = with_tools("a", &["b"]);
        a.inherits_hooks = inherits;
        a.hooks = vec![BoxedHook::new(own.clone())];
        let mut b = with_tools("b", &[]);
        b.max_depth = 2;
        let builder = parent(&scripts, &Log::default(), [("a", a), ("b", b)]);
        let mut agent = Chat::new(builder.hook(watch.clone()));
        agent.run("start", &context()).await.unwrap();
        let deepest = "start b:r/0/0/0/c0/a/0/0/0/c0/b in 2(r/0/0/0/c0/a c0)";
        assert_eq!(watch.log.count("start b"), usize::from(inherits));
        assert_eq!(watch.log.count("start a"), usize::from(inherits));
        assert_eq!(watch.log.count("start -:r"), 1);
        // The agent's own hooks receive the events of agents inside it.
        assert_eq!(own.log.count(deepest), 1, "{:#?}", own.log.lines());
        assert_eq!((own.log.count("start a"), own.log.count("start -")), (1, 0));
        // The next run starts at the top level again.
        scripts.of("main").push(text("more"));
        agent.run("more", &context()).await.unwrap();
        assert_eq!(watch.log.count("start -:r"), 2);
    }
}

#[tokio::test]
async fn hook_that_ends_an_agent_ends_the_parent_run() {
    for way in WAYS {
        for policy in [ToolErrorPolicy::EndRun, ToolErrorPolicy::ReturnToModel] {
            for parallel in [false, true] {
                let scripts = Scripts::new([
                    ("main", vec![asks(&["outer"])]),
                    ("outer", vec![asks(&["a"])]),
                    ("a", vec![calls([("x", "act", json!({}))])]),
                ]);
                let action = HookAction::Terminate { reason: "forbidden".into() };
                let watch = Watch { ends: Some(("call act", action)), ..Default::default() };
                let log = Log::default();
                let mut a = with_tools("a", &["act"]);
                a.max_depth = 2;
                let agents = [("outer", with_tools("outer", &["a"])), ("a", a)];
                let builder = parent(&scripts, &log, agents);
                let mut agent = Chat::new(builder.hook(watch.clone()).config(|config| {
                    config.tool_errors = policy;
                    config.parallel_tool_execution = parallel;
                }));
                let error = run(way, &mut agent, &context()).await.unwrap_err();
                assert!(
                    matches!(&error, LoopError::HookTerminated(why) if why == "forbidden"),
                    "{way:?} {policy:?}: {error:?}"
                );
                assert!(log.lines().is_empty(), "the tool did not run");
                assert_eq!(transcript::validate(agent.messages()), Ok(()));
                assert_eq!(watch.log.count("failed outer"), 1);
                assert_eq!(watch.log.count("end false"), 3, "all three runs ended");
                assert_eq!(agent.conversation.usage(), &usage(30, 3));
            }
        }
    }
}

#[tokio::test]
async fn hook_that_skips_a_call_of_an_agent_skips_only_that_call() {
    let (scripts, log) = (scripts(), Log::default());
    let action = HookAction::Skip { reason: "not now".into() };
    let watch = Watch { ends: Some(("call act", action)), ..Default::default() };
    let builder = parent(&scripts, &log, [("a", with_tools("a", &["act"]))]);
    let mut agent = Chat::new(builder.hook(watch));
    agent.run("start", &context()).await.unwrap();
    assert!(log.lines().is_empty());
    assert_eq!(last_results(&scripts.of("a").requests()[1].messages), ["x: not now"]);
    assert_eq!(last_results(agent.messages()), ["c0: a"]);
}
