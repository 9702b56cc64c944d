//! Tests of boxed hooks and of the default methods of `ObservabilityHook`.

use std::sync::{Arc, Mutex};

use neuron_types::{
    BoxedHook, BoxedLayer, CompletionResponse, HookAction, HookError, HookEvent, HookScope,
    InjectionPoint, Injector, LoopError, ModelCall, ModelLayer, ModelNext, ObservabilityHook,
    Operation, OperationKind, OperationScope, Outcome, OuterCall, RequestRef, Scopes,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Full(Log);

impl ObservabilityHook for Full {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.0.push(format!("on_event {event:?}"));
        Ok(HookAction::Continue)
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.0.push(format!("on_event_in {event:?} {scope:?}"));
        Ok(HookAction::Terminate { reason: "told".into() })
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        struct LoggingScope(Log);
        impl OperationScope for LoggingScope {
            fn around(&mut self, poll: &mut dyn FnMut()) {
                self.0.push("around".into());
                poll();
            }
            fn end(self: Box<Self>, outcome: Outcome<'_>) {
                self.0.push(format!("end {outcome:?}"));
            }
        }
        let OperationKind::Compaction { old_tokens } = operation.kind else {
            return None;
        };
        self.0.push(format!("scope {old_tokens} in {}", operation.scope.run_id));
        Some(Box::new(LoggingScope(self.0.clone())))
    }
}

fn scope() -> HookScope<'static> {
    HookScope::new("run-1", 2, "anthropic", "m")
        .in_call("c1")
        .at_server("api.example", Some(443))
        .with_replaying(true)
        .with_routed(true)
        .of_agent("a")
        .with_outer_call(Some(OuterCall::new("run-0", "c0", 1)))
}

#[tokio::test]
async fn boxed_hook_forwards_events_and_scopes() {
    let log = Log::default();
    let boxed = BoxedHook::new(Full(log.clone()));
    for hook in [boxed.clone(), BoxedHook::new(boxed)] {
        assert_eq!(format!("{hook:?}"), "BoxedHook { .. }");
        let event = HookEvent::LoopIteration { turn: 2 };
        assert_eq!(hook.on_event(event).await.unwrap(), HookAction::Continue);
        let told = hook.on_event_in(event, &scope()).await.unwrap();
        assert!(matches!(told, HookAction::Terminate { .. }));
        assert_eq!(
            log.take(),
            [
                "on_event LoopIteration { turn: 2 }",
                "on_event_in LoopIteration { turn: 2 } HookScope { run_id: \"run-1\", turn: 2, \
                 call_id: Some(\"c1\"), provider: \"anthropic\", model: \"m\", routed: true, \
                 server_address: \"api.example\", server_port: Some(443), replaying: true, \
                 agent: \"a\", \
                 within: Some(OuterCall { run_id: \"run-0\", call_id: \"c0\", depth: 1 }) }",
            ]
        );

        let run = OperationKind::Run { session_id: "s", request: &RequestRef::default() };
        assert!(hook.scope(&Operation::new(scope(), run)).is_none());
        let compaction = OperationKind::Compaction { old_tokens: 9 };
        let mut scopes = Scopes::open(&[hook], &Operation::new(scope(), compaction));
        scopes.run(async {}).await;
        scopes.end(Outcome::Compacted { new_tokens: 3 });
        assert_eq!(log.take(), ["scope 9 in run-1", "around", "end Compacted { new_tokens: 3 }"]);
    }
}

#[tokio::test]
async fn minimal_hook_receives_all_events_and_opens_no_scope() {
    struct Plain(Log);
    impl ObservabilityHook for Plain {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            self.0.push(format!("{event:?}"));
            Err(HookError::Failed("full".into()))
        }
    }
    let log = Log::default();
    let hook = BoxedHook::new(Plain(log.clone()));
    let told = hook.on_event_in(HookEvent::FirstChunk, &scope()).await;
    assert_eq!(told.unwrap_err().to_string(), "hook failed: full");
    assert_eq!(log.take(), ["FirstChunk"]);
    let run = OperationKind::Run { session_id: "s", request: &RequestRef::default() };
    assert!(hook.scope(&Operation::new(scope(), run)).is_none());
}

#[test]
fn hook_scope_builder_sets_all_fields() {
    let place = HookScope::new("run-1", 2, "anthropic", "m");
    assert_eq!((place.call_id, place.replaying, place.routed), (None, false, false));
    assert_eq!(scope().call_id, Some("c1"));
    assert!(scope().replaying && scope().routed);
    assert_eq!(HookScope::default(), HookScope::new("", 0, "", ""));
}

#[test]
fn boxed_hook_forwards_its_layer_and_injector() {
    struct WithLayer;
    impl ObservabilityHook for WithLayer {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Ok(HookAction::Continue)
        }
        fn layer(&self) -> Option<BoxedLayer> {
            Some(BoxedLayer::new(PassThrough))
        }
        fn injector(&self) -> Option<Arc<dyn Injector>> {
            Some(Arc::new(NoTexts))
        }
    }
    struct Plain;
    impl ObservabilityHook for Plain {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Ok(HookAction::Continue)
        }
    }
    assert!(BoxedHook::new(BoxedHook::new(WithLayer)).layer().is_some());
    assert!(BoxedHook::new(Plain).layer().is_none());
    assert!(BoxedHook::new(BoxedHook::new(WithLayer)).injector().is_some());
    assert!(BoxedHook::new(Plain).injector().is_none());
}

struct NoTexts;

impl Injector for NoTexts {
    fn injections(&self, _: &InjectionPoint<'_>) -> Vec<String> {
        Vec::new()
    }
}

struct PassThrough;

impl ModelLayer for PassThrough {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        next.run(call).await
    }
}
