//! Tests of the scopes of hooks ([`OperationScope`]), which wrap each poll of a tool call.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    CallScope, HookAction, HookError, HookEvent, HookScope, ObservabilityHook, Operation,
    OperationKind, OperationScope, Scopes, ToolInvocation,
};

use super::{batch, texts, three};
use crate::SqliteRuns;
use crate::test_support::{forget, place, silent};

/// A hook that opens a scope for each tool call. It records when a scope is entered, and inside which scopes a call
/// runs.
#[derive(Clone, Default)]
struct Scoping(Arc<Mutex<Vec<String>>>);

struct Scope(String, Scoping);

impl Scoping {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    /// Removes and returns the lines that were recorded since the last call of this method.
    fn entered(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().collect()
    }

    fn around(&self, batch: Vec<ToolInvocation>) -> Vec<ToolInvocation> {
        let open = |invocation: ToolInvocation| {
            let call = invocation.call.clone();
            let kind = OperationKind::ToolCall { call: &call, offered: &[] };
            let operation = Operation::new(HookScope::default().in_call(&call.id), kind);
            let scopes = Scopes::open(std::slice::from_ref(self), &operation);
            invocation.with_scope(CallScope::new(scopes))
        };
        batch.into_iter().map(open).collect()
    }
}

thread_local! {
    /// Ids of the tool calls whose scopes this thread has entered and not left, the outermost first.
    static INSIDE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl OperationScope for Scope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        INSIDE.with_borrow_mut(|inside| inside.push(self.0.clone()));
        self.1.note(format!("{} is entered", self.0));
        poll();
        INSIDE.with_borrow_mut(|inside| inside.pop());
    }
}

impl ObservabilityHook for Scoping {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        Some(Box::new(Scope(operation.scope.call_id?.to_owned(), self.clone())))
    }
}

#[tokio::test]
async fn only_running_calls_enter_their_own_scopes() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let (tools, scoping) = (three(), Scoping::default());
    let open = async || {
        let mut registry = ToolRegistry::new();
        for tool in &tools {
            registry.register_dyn(Arc::new(tool.clone()));
        }
        let scoping = scoping.clone();
        registry.add_middleware(tool_middleware_fn(move |call, ctx, next| {
            let scoping = scoping.clone();
            Box::pin(async move {
                let look = || INSIDE.with_borrow(|inside| inside.join(">"));
                scoping.note(format!("{} runs in {}", call.id, look()));
                tokio::task::yield_now().await;
                scoping.note(format!("{} goes on in {}", call.id, look()));
                next.run(call, ctx).await
            })
        }));
        runs.run("r").open(silent(), Arc::new(registry)).await.unwrap()
    };
    let lines = |calls: &[&str]| {
        let of = |call: &&str| {
            let (entered, runs) = (format!("{call} is entered"), format!("{call} runs in {call}"));
            [entered, runs, format!("{call} goes on in {call}")]
        };
        calls.iter().flat_map(of).collect::<BTreeSet<_>>()
    };

    let durable = open().await;
    texts(&durable, scoping.around(batch(&tools))).await;
    assert_eq!(scoping.entered(), lines(&["call-look", "call-put", "call-pay"]));
    drop(durable);

    // The first call has ended, the second runs again, and the third has an unknown outcome.
    forget(&path, &[1, 2]);
    let durable = open().await;
    texts(&durable, scoping.around(batch(&tools))).await;
    assert_eq!(scoping.entered(), lines(&["call-put"]));
    drop(durable);

    texts(&open().await, scoping.around(batch(&tools))).await;
    assert_eq!(scoping.entered(), lines(&[]));
}
