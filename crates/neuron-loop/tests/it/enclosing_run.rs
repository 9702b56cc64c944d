//! Hooks, permissions and pauses that an agent inside a tool call inherits, and outcomes that end the parent run.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use neuron_loop::{Agent, Conversation, LoopError, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    HookAction, HookError, HookEvent, HookScope, ObservabilityHook, PermissionDecision,
    PermissionPolicy, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::*;

/// The settings that the inner agent inherits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Takes {
    Nothing,
    Hooks,
    Permissions,
    OwnPolicy,
    Pauses,
}

/// A tool that runs an agent, which calls the tool `act`. The fields are the inherited settings, the log, and the
/// decision of the agent's own policy.
struct Inner(Takes, Log, PermissionDecision);

impl ToolDyn for Inner {
    fn name(&self) -> &str {
        "inner"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("inner")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let script = ScriptedProvider::new([calls([json!({})]), Reply::text("inner")]);
            let builder = Chat::builder(script, window())
                .name("small")
                .tools(registry(&self.1))
                .hook(Told(self.1.clone(), "own", HookAction::Continue));
            let own = Decides(self.2.clone());
            let builder = match self.0 {
                Takes::Nothing => builder.permission_policy(own),
                Takes::Hooks => builder.permission_policy(own).inherit_hooks(ctx),
                Takes::Permissions => builder.inherit_permissions(ctx),
                Takes::OwnPolicy => builder.permission_policy(own).inherit_permissions(ctx),
                Takes::Pauses => builder
                    .permission_policy(Decides(PermissionDecision::Ask("own?".into())))
                    .inherit_permissions(ctx),
            };
            let result = builder.build().run_text("sub-task", ctx).await?;
            Ok(ToolOutput::text(result.response))
        })
    }
}

struct Decides(PermissionDecision);

impl PermissionPolicy for Decides {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        if tool_name == "inner" { PermissionDecision::Allow } else { self.0.clone() }
    }
}

/// A hook that logs each tool call with the name of the hook (the `&str`) and of the agent. If the calling agent runs
/// inside another tool call, the hook returns its `HookAction`. Otherwise it returns `Continue`.
struct Told(Log, &'static str, HookAction);

impl ObservabilityHook for Told {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let HookEvent::PreToolExecution { tool_name, .. } = event else {
            return Ok(HookAction::Continue);
        };
        let outer = scope.within.map(|outer| (outer.run_id, outer.call_id, outer.depth));
        self.0.push(format!("{} {tool_name} {:?} {outer:?}", self.1, scope.agent));
        Ok(if outer.is_some() { self.2.clone() } else { HookAction::Continue })
    }
}

fn script() -> [Reply; 2] {
    [Reply::tool_calls([("o", "inner", json!({}))]), Reply::text("done")]
}

#[tokio::test]
async fn inherited_parent_hooks_run_before_own_hooks() {
    for takes in [Takes::Nothing, Takes::Hooks] {
        for way in WAYS {
            let (setup, log) = (setup(script()), Log::default());
            let hook = Told(log.clone(), "outer", HookAction::Continue);
            let mut agent = setup.builder.hook(hook).build();
            agent.tools_mut().register_dyn(Arc::new(Inner(
                takes,
                log.clone(),
                PermissionDecision::Allow,
            )));
            let ctx = ToolContext { run_id: "r".into(), ..Default::default() };
            run(way, &mut agent, &ctx).await.unwrap();
            let seen = r#"act "small" Some(("r", "o", 1))"#;
            let (inherited, own) = (format!("outer {seen}"), format!("own {seen}"));
            let expected = match takes {
                Takes::Hooks => vec![r#"outer inner "" None"#, &*inherited, &*own],
                _ => vec![r#"outer inner "" None"#, &*own],
            };
            let lines = log.lines();
            let told: Vec<_> =
                lines.iter().filter(|line| line.contains(" in") || line.contains(" act")).collect();
            assert_eq!(told, expected, "{way:?} {takes:?}");
        }
    }
}

#[tokio::test]
async fn hook_that_ends_a_nested_agent_ends_the_parent_run() {
    for policy in [ToolErrorPolicy::EndRun, ToolErrorPolicy::ReturnToModel] {
        for way in WAYS {
            let (setup, log) = (setup(script()), Log::default());
            let end = HookAction::Terminate { reason: "enough".into() };
            let builder = setup.builder.hook(Told(log.clone(), "outer", end)).tool_errors(policy);
            let mut agent = builder.build();
            agent.tools_mut().register_dyn(Arc::new(Inner(
                Takes::Hooks,
                log.clone(),
                PermissionDecision::Allow,
            )));
            let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
            assert_eq!(error, "terminated by hook: enough", "{way:?} {policy:?}");
            assert_eq!(setup.provider.calls(), 1);
            assert_eq!(last_results(agent.messages()), ["o: !terminated by hook: enough"]);
            assert_eq!(log.count("start"), 0, "no tool ran");
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn inherited_parent_policy_decides_on_nested_calls() {
    for (takes, runs) in [(Takes::Nothing, 1), (Takes::Permissions, 0)] {
        let (setup, log) = (setup(script()), Log::default());
        let never = Decides(PermissionDecision::Deny("never".into()));
        let mut agent = setup.builder.permission_policy(never).build();
        agent.tools_mut().register_dyn(Arc::new(Inner(
            takes,
            log.clone(),
            PermissionDecision::Allow,
        )));
        agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(log.count("start"), runs, "{takes:?}");
    }
}

#[tokio::test]
async fn nested_agent_keeps_its_own_policy() {
    for (way, has_policy) in WAYS.iter().flat_map(|way| [(*way, true), (*way, false)]) {
        let (setup, log) = (setup(script()), Log::default());
        let mut builder = setup.builder.pause_for_approval(true);
        if has_policy {
            builder = builder.permission_policy(Decides(PermissionDecision::Allow));
        }
        let mut agent = builder.build();
        let never = PermissionDecision::Deny("never".into());
        let inner = Inner(Takes::OwnPolicy, log.clone(), never);
        agent.tools_mut().register_dyn(Arc::new(inner));
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(log.count("start"), 0, "{way:?}");
    }
}

#[tokio::test]
async fn nested_agent_pauses_if_the_parent_may_pause() {
    for pauses in [true, false] {
        let (setup, log) = (setup(script()), Log::default());
        let mut agent = setup.builder.pause_for_approval(pauses).build();
        agent.tools_mut().register_dyn(Arc::new(Inner(
            Takes::Pauses,
            log.clone(),
            PermissionDecision::Allow,
        )));
        match agent.run_text("go", &ToolContext::default()).await {
            Err(LoopError::ApprovalRequired(pending)) if pauses => {
                let nested = pending.calls[0].nested.as_ref().unwrap();
                assert_eq!(nested.calls[0].reason, "own?");
            }
            // The inner agent received a denial and continued.
            Ok(_) if !pauses => assert_eq!(last_results(agent.messages()), ["o: inner"]),
            other => panic!("{other:?}"),
        }
        assert_eq!(log.count("start"), 0);
    }
}

#[tokio::test]
async fn nothing_is_inherited_outside_of_a_call() {
    let ctx = ToolContext::default();
    let (setup, log) = (setup([calls([json!({})]), Reply::text("done")]), Log::default());
    let mut agent = setup
        .builder
        .pause_for_approval(true)
        .permission_policy(Decides(PermissionDecision::Ask("?".into())))
        .hook(Told(log.clone(), "own", HookAction::Continue))
        .inherit_hooks(&ctx)
        .inherit_permissions(&ctx)
        .build();
    let ended = agent.run_text("go", &ctx).await;
    assert!(matches!(ended, Err(LoopError::ApprovalRequired(_))));
    assert_eq!(setup.log.count("start"), 0);
}

#[tokio::test]
async fn nested_agent_pauses_in_a_parent_that_waits_for_decisions() {
    let mut tools = ToolRegistry::new();
    let inner = Inner(Takes::Permissions, Log::default(), PermissionDecision::Allow);
    tools.register_dyn(Arc::new(inner));
    let agent = Agent::builder(ScriptedProvider::new(script()))
        .tools(tools)
        .permission_policy(Decides(PermissionDecision::Ask("?".into())))
        .build();
    let mut chat = Conversation::new();
    let mut run = agent.run(&mut chat, "go").wait_for_approval();
    let handle = run.handle();
    let mut run = pin!(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    let pending = handle.pending().expect("somebody is asked");
    assert!(pending.calls[0].nested.is_some());
}
