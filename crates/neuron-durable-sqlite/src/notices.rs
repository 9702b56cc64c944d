//! Notifications inside this process. Other processes see the same in the database.

use tokio::sync::Notify;

/// Wakes those who wait for a change that this process makes.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// A signal was sent.
    pub(crate) signals: Notify,
    /// A run was cancelled.
    pub(crate) cancelled: Notify,
    /// A run can be driven that could not before.
    pub(crate) runnable: Notify,
}
