//! A table of the tool calls that run in this process ([`RunningTools`]). A cancelled run cancels its calls through
//! this table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

/// The cancellation tokens of running tool calls, by idempotency key. Clones share the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningTools(Arc<Mutex<HashMap<String, CancellationToken>>>);

impl RunningTools {
    /// Adds a tool call to the table of running calls. `key` is the idempotency key of the call. Returns the call's
    /// cancellation token and a guard. Dropping the guard removes the call and cancels the token.
    pub(crate) fn enter(&self, key: &str) -> (CancellationToken, Entered) {
        let token = CancellationToken::new();
        self.lock().insert(key.to_owned(), token.clone());
        let guard = token.clone().drop_guard();
        (token, Entered { tools: self.clone(), key: key.to_owned(), _guard: guard })
    }

    /// Cancels the token of a call, if the call runs in this process.
    pub(crate) fn cancel(&self, key: &str) {
        if let Some(token) = self.lock().get(key) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a tool call in the table of running calls. Dropping the guard removes the call.
#[derive(Debug)]
pub(crate) struct Entered {
    tools: RunningTools,
    key: String,
    _guard: DropGuard,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.tools.lock().remove(&self.key);
    }
}
