//! Hooks behind a pointer, and what a hook is told by default.

use std::sync::{Arc, Mutex};

use neuron_types::{
    BoxedHook, HookAction, HookError, HookEvent, HookScope, Message, ObservabilityHook, Operation,
    OperationKind, OperationScope, Outcome, OuterCall, RequestRef, Scopes,
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
        struct Noted(Log);
        impl OperationScope for Noted {
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
        Some(Box::new(Noted(self.0.clone())))
    }
}

fn scope() -> HookScope<'static> {
    HookScope::new("run-1", 2, "anthropic", "m")
        .in_call("c1")
        .at_server("api.example", Some(443))
        .with_replaying(true)
        .of_agent("a")
        .with_outer_call(Some(OuterCall::new("run-0", "c0", 1)))
}

#[tokio::test]
async fn a_boxed_hook_forwards_events_their_place_and_scopes() {
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
                 call_id: Some(\"c1\"), provider: \"anthropic\", model: \"m\", \
                 server_address: \"api.example\", server_port: Some(443), replaying: true, \
                 passed_messages: 0, said_before: \"\", output_tool: None, agent: \"a\", \
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
async fn a_hook_that_only_takes_events_gets_them_from_every_place_and_opens_no_scope() {
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
fn a_place_in_a_run_is_built_step_by_step() {
    let place = HookScope::new("run-1", 2, "anthropic", "m");
    assert_eq!((place.call_id, place.replaying), (None, false));
    assert_eq!(scope().call_id, Some("c1"));
    assert!(scope().replaying);
    assert_eq!(HookScope::default(), HookScope::new("", 0, "", ""));
}

/// A boxed hook that forgot one of these would let pass what it must not.
#[test]
fn a_boxed_hook_guards_as_the_hook_does() {
    struct Guards(usize);
    impl ObservabilityHook for Guards {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Ok(HookAction::Continue)
        }
        fn fails_closed(&self) -> bool {
            self.0 == 0
        }
        fn rejects_text(&self) -> bool {
            self.0 == 1
        }
        fn rejects_tool_results(&self) -> bool {
            self.0 == 2
        }
        fn holds_back_text(&self) -> bool {
            self.0 == 3
        }
    }
    let guards = |hook: &BoxedHook| {
        [
            hook.fails_closed(),
            hook.rejects_text(),
            hook.rejects_tool_results(),
            hook.holds_back_text(),
        ]
    };
    for which in 0..5 {
        let mut expected = [false; 4];
        expected.get_mut(which).into_iter().for_each(|guards| *guards = true);
        let boxed = BoxedHook::new(Guards(which));
        assert_eq!(guards(&boxed), expected);
        assert_eq!(guards(&BoxedHook::new(boxed)), expected);
    }
    struct Plain;
    impl ObservabilityHook for Plain {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Ok(HookAction::Continue)
        }
    }
    assert_eq!(guards(&BoxedHook::new(Plain)), [false; 4], "by default");
}

#[test]
fn what_is_new_to_the_model_comes_after_its_answer_and_after_what_passed() {
    let conversation = [
        Message::user("a"),
        Message::assistant("b"),
        Message::system("c"),
        Message::user("d"),
        Message::user("e"),
    ];
    for (passed, new) in [
        (0, "cde"),
        (1, "cde"),
        (2, "cde"),
        (3, "de"),
        (4, "e"),
        (5, ""),
        (6, ""),
        (usize::MAX, ""),
    ] {
        let scope = scope().with_passed_messages(passed);
        let texts: String = scope.new_messages(&conversation).iter().map(Message::text).collect();
        assert_eq!(texts, new, "{passed}");
    }
    let texts = |messages: &[Message]| -> String { messages.iter().map(Message::text).collect() };
    assert_eq!(texts(HookScope::default().new_messages(&conversation[..1])), "a");
    assert_eq!(texts(HookScope::default().new_messages(&conversation[..2])), "");
    assert_eq!(texts(HookScope::default().new_messages(&[])), "");
}
