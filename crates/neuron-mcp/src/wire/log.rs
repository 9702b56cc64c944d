//! Conversion of log levels between the types of this crate and the types of the SDK `rmcp`.
#![expect(deprecated, reason = "logging is left to older versions of the protocol")]

use rmcp::model::{
    LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, RequestMetaObject,
    ServerNotification, SetLevelRequestParams,
};

use crate::text::cleaned_name;
use crate::{LogLevel, McpLogMessage};

/// Converts a log level that the peer sent.
pub(crate) fn level_from_sdk(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info => LogLevel::Info,
        LoggingLevel::Notice => LogLevel::Notice,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error => LogLevel::Error,
        LoggingLevel::Critical => LogLevel::Critical,
        LoggingLevel::Alert => LogLevel::Alert,
        LoggingLevel::Emergency => LogLevel::Emergency,
    }
}

/// Converts a log level for the peer.
pub(crate) fn level_to_sdk(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Notice => LoggingLevel::Notice,
        LogLevel::Warning => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
        LogLevel::Critical => LoggingLevel::Critical,
        LogLevel::Alert => LoggingLevel::Alert,
        LogLevel::Emergency => LoggingLevel::Emergency,
    }
}

/// Converts a log message that a server sent.
pub(crate) fn message_from_sdk(message: LoggingMessageNotificationParam) -> McpLogMessage {
    McpLogMessage {
        level: level_from_sdk(message.level),
        logger: message.logger.map(cleaned_name),
        data: message.data,
    }
}

/// Converts a log message for the client.
pub(crate) fn message_to_sdk(message: McpLogMessage) -> LoggingMessageNotificationParam {
    let mut sent = LoggingMessageNotificationParam::new(level_to_sdk(message.level), message.data);
    sent.logger = message.logger;
    sent
}

/// Creates the notification of a log message.
pub(crate) fn notification(message: McpLogMessage) -> ServerNotification {
    ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(message_to_sdk(
        message,
    )))
}

/// Returns the minimum log level that a client's request sets (MCP since 2026-07-28). Returns `None` if the client
/// wants no log messages.
pub(crate) fn level_of_request(meta: &RequestMetaObject) -> Option<LogLevel> {
    meta.log_level().map(level_from_sdk)
}

/// Sets the minimum level of the log messages that the server sends while it handles the request (MCP since
/// 2026-07-28).
pub(crate) fn level_to_meta(level: LogLevel, meta: &mut RequestMetaObject) {
    meta.set_log_level(level_to_sdk(level));
}

/// Creates the parameters of `logging/setLevel`, which sets the minimum level of all later log messages (MCP until
/// 2025-11-25).
pub(crate) fn level_request(level: LogLevel) -> SetLevelRequestParams {
    SetLevelRequestParams::new(level_to_sdk(level))
}
