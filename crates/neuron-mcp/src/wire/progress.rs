//! Progress: ours and the SDK's.

use rmcp::model::{
    ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};

/// How far a call has come, as it is sent.
pub(crate) fn notification(
    token: ProgressToken,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
) -> ServerNotification {
    let mut sent = ProgressNotificationParam::new(token, progress);
    sent.total = total.filter(|total| total.is_finite());
    sent.message = message.map(str::to_owned);
    ServerNotification::ProgressNotification(ProgressNotification::new(sent))
}
