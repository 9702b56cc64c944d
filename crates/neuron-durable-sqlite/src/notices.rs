//! Notifications inside this process. Changes by other processes are found by reading the database.

use tokio::sync::Notify;

/// Wakes tasks of this process that wait for a change of the database.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Notified when this process has sent a signal.
    pub(crate) signals: Notify,
    /// Notified when this process has cancelled a run.
    pub(crate) cancelled: Notify,
    /// Notified when a run may have become ready for a pool. For example, this process has created a run, sent a signal
    /// or retried a run.
    pub(crate) runnable: Notify,
}
