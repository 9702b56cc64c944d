//! Conversion of progress between the types of this crate and the types of the SDK `rmcp`.

use rmcp::model::{
    ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};

/// Creates a progress notification for the request with this progress `token`. A `total` that is not finite is omitted.
pub(crate) fn notification(
    token: ProgressToken,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
) -> ServerNotification {
    let mut sent = ProgressNotificationParam::new(token, progress);
    // JSON has no infinity and no NaN.
    sent.total = total.filter(|total| total.is_finite());
    sent.message = message.map(str::to_owned);
    ServerNotification::ProgressNotification(ProgressNotification::new(sent))
}
