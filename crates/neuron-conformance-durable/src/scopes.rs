//! Scopes of tool calls.

use std::cell::RefCell;

use neuron_types::{
    HookAction, HookError, HookEvent, ObservabilityHook, Operation, OperationKind, OperationScope,
};

use crate::effects::{EffectKind, EffectLog};

thread_local! {
    /// The calls whose scopes this thread has entered, like the spans of a tracing subscriber.
    static INSIDE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns the calls whose scopes are entered, outermost first.
pub(crate) fn inside() -> Vec<String> {
    INSIDE.with_borrow(Clone::clone)
}

/// A hook that opens a scope around each tool call.
pub(crate) struct CallScopes(pub(crate) EffectLog);

impl ObservabilityHook for CallScopes {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let OperationKind::ToolCall { call, .. } = operation.kind else { return None };
        let (call_id, log) = (call.id.clone(), self.0.clone());
        Some(Box::new(Scope { call_id, log, is_entered: false }))
    }
}

struct Scope {
    call_id: String,
    log: EffectLog,
    is_entered: bool,
}

impl OperationScope for Scope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        if !std::mem::replace(&mut self.is_entered, true) {
            self.log.append(EffectKind::ScopeEntered { call_id: self.call_id.clone() });
        }
        INSIDE.with_borrow_mut(|inside| inside.push(self.call_id.clone()));
        let _left = Left;
        poll();
    }
}

/// Leaves a scope, also if the poll panics.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.pop());
    }
}
