//! Observability: the hook trait with the signature of its chapter.

use std::future::Future;
use std::sync::{Arc, Mutex};

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook, ToolContext};

#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl ObservabilityHook for Names {
    fn on_event(
        &self,
        event: HookEvent<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + Send {
        let name = match event {
            HookEvent::LoopIteration { turn: 0 } => "LoopIteration",
            HookEvent::PreLlmCall { request } if request.messages.len() == 1 => "PreLlmCall",
            HookEvent::PostLlmCall { response } if !response.id.is_empty() => "PostLlmCall",
            HookEvent::SessionStart { session_id: "s" } => "SessionStart",
            HookEvent::SessionEnd { session_id: "s" } => "SessionEnd",
            _ => "other",
        };
        async move {
            self.0.lock().unwrap().push(name);
            Ok(HookAction::Continue)
        }
    }
}

#[tokio::test]
async fn several_hooks_see_the_same_events() {
    let (provider, registry) = (ScriptedProvider::new([Reply::text("hi")]), ToolRegistry::new());
    let context = SlidingWindowStrategy::new(20, 100_000);
    let (first, second) = (Names::default(), Names::default());
    let mut agent =
        AgentLoop::builder(provider, context).tools(registry).hook(first.clone()).build();
    agent.add_hook(second.clone());

    let ctx = ToolContext { session_id: "s".into(), ..Default::default() };
    agent.run_text("hi", &ctx).await.unwrap();
    let mut names = first.0.lock().unwrap().clone();
    assert_eq!(names, *second.0.lock().unwrap());
    names.retain(|name| *name != "other");
    assert_eq!(names, ["SessionStart", "LoopIteration", "PreLlmCall", "PostLlmCall", "SessionEnd"]);
}

/// "Using with neuron-runtime's TracingHook", beside another hook.
#[tokio::test]
async fn the_tracing_hook_is_independent_of_others() {
    use neuron_runtime::TracingHook;

    let (provider, names) = (ScriptedProvider::new([Reply::text("hi")]), Names::default());
    let context = SlidingWindowStrategy::new(20, 100_000);
    let mut agent = AgentLoop::builder(provider, context)
        .hook(TracingHook::default()) // Local debug logging
        .hook(names.clone())
        .build();

    let ctx = ToolContext { session_id: "s".into(), ..Default::default() };
    assert_eq!(agent.run_text("hi", &ctx).await.unwrap().response, "hi");
    assert!(names.0.lock().unwrap().contains(&"SessionEnd"));
}
