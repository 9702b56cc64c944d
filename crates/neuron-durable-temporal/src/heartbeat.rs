//! [`Heartbeat`]: tells the server that an activity's worker lives.

use std::time::Duration;

use temporalio_sdk::activities::ActivityContext;
use tokio::task::JoinHandle;

/// Beats until it is dropped, in a task of its own: a tool that blocks its thread lives too.
pub(crate) struct Heartbeat(Option<JoinHandle<()>>);

impl Heartbeat {
    /// Beats three times in the time that the server waits.
    pub(crate) fn start(ctx: &ActivityContext) -> Self {
        let Some(timeout) = ctx.info().heartbeat_timeout else {
            return Self(None);
        };
        let interval = (timeout / 3).max(Duration::from_millis(50));
        let ctx = ctx.clone();
        Self(Some(tokio::spawn(async move {
            loop {
                // `()` is a payload that always fits.
                let _ = ctx.record_heartbeat(()).await;
                tokio::time::sleep(interval).await;
            }
        })))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some(beats) = &self.0 {
            beats.abort();
        }
    }
}
