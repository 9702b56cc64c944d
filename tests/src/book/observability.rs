//! Tests the chapter of neuron's book on observability. The section on `OtelHook` is tested in `observability/otel.rs`.

use std::future::Future;
use std::sync::{Arc, Mutex};

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook, ToolContext};

mod otel;

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
async fn all_hooks_receive_the_same_events() {
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
