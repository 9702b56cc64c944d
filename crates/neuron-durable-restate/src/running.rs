//! The tools that run in this process, so that a cancelled run can tell them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

/// The tokens of calls that run here, by their idempotency keys. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningTools(Arc<Mutex<HashMap<String, CancellationToken>>>);

impl RunningTools {
    /// Records a call until the returned guard is dropped, which also cancels the token.
    pub(crate) fn enter(&self, key: &str) -> (CancellationToken, Entered) {
        let token = CancellationToken::new();
        self.lock().insert(key.to_owned(), token.clone());
        let guard = token.clone().drop_guard();
        (token, Entered { tools: self.clone(), key: key.to_owned(), _guard: guard })
    }

    /// Tells a call that its run was cancelled, if it runs here.
    pub(crate) fn cancel(&self, key: &str) {
        if let Some(token) = self.lock().get(key) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs.
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
