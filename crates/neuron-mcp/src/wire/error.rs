//! Conversion of errors between the types of this crate and the types of the SDK `rmcp`.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::OnceLock;

use neuron_types::McpError;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};

use serde_json::{Value, json};

use super::peer_info;
use crate::causes::with_causes;
use crate::client::http::proxy;
use crate::text::{cleaned, shortened};
use crate::{McpLimitExceeded, McpRequestError, McpVersion};

/// Converts the error of a request to a server. The error text contains `method`, the method of the request.
pub(crate) fn from_service(method: &str, error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(refusal) => refused(method, refusal),
        ServiceError::TransportSend(error) => {
            if let Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) = http_error(&error)
            {
                return McpError::Other(Box::new(response_exceeds(method, *max_size)));
            }
            let what = if was_sent(&error) { "failed" } else { "could not be sent" };
            McpError::Transport(format!("{method} {what}: {}", transport_text(&error)))
        }
        ServiceError::TransportClosed => {
            McpError::Transport(format!("the connection was lost before {method} was answered"))
        }
        other => McpError::Transport(format!("{method}: {}", shortened(&other.to_string()))),
    }
}

/// Returns a random text that identifies errors of this client. The client uses such an error in place of an invalid
/// response. A server cannot guess the text, so it cannot imitate these errors.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let random = || RandomState::new().build_hasher().finish();
        format!("{:016x}{:016x}", random(), random())
    })
}

/// Creates the error that replaces a response of more than `limit` bytes.
pub(crate) fn too_long(limit: usize) -> ErrorData {
    ErrorData::internal_error("", Some(json!({ "mark": mark(), "limit": limit })))
}

/// Creates the error that replaces a response that cannot be parsed. `error` is the error of the parser.
pub(crate) fn unreadable(error: &serde_json::Error) -> ErrorData {
    ErrorData::parse_error(error.to_string(), Some(json!({ "mark": mark() })))
}

/// Returns the client's own error if `error` replaces a response that was too long or could not be parsed. Returns
/// `None` if the server sent `error`.
fn not_taken(method: &str, error: &ErrorData) -> Option<Box<dyn Error + Send + Sync>> {
    let data = error.data.as_ref()?;
    if data.get("mark")?.as_str()? != mark() {
        return None;
    }
    Some(match data.get("limit").and_then(Value::as_u64) {
        Some(limit) => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            Box::new(response_exceeds(method, limit))
        }
        None => {
            let reason = &error.message;
            format!("{method}: the server's answer cannot be read: {reason}").into()
        }
    })
}

/// Returns the error for a response of more than `limit` bytes.
fn response_exceeds(method: &str, limit: usize) -> McpLimitExceeded {
    let (method, what) = (method.to_owned(), "the server's answer");
    let setting = Some("max_message_bytes");
    McpLimitExceeded { method, what, limit, unit: "bytes", setting }
}

/// Converts an error response to an [`McpError`]. If the server's response was too long or invalid, this client has
/// replaced it by an error response.
fn refused(method: &str, refusal: ErrorData) -> McpError {
    if let Some(error) = not_taken(method, &refusal) {
        return McpError::Other(error);
    }
    McpError::Other(Box::new(McpRequestError {
        method: method.to_owned(),
        code: refusal.code.0,
        message: cleaned(refusal.message.into_owned()),
        data: refusal.data,
    }))
}

/// Converts the server's refusal of a tool call to [`McpError::ToolCall`], for users who call tools directly. Returns
/// all other errors unchanged.
pub(crate) fn refused_call(error: McpError) -> McpError {
    let refusal = match &error {
        McpError::Other(source) => source.downcast_ref::<McpRequestError>(),
        _ => None,
    };
    match refusal {
        Some(refusal) => McpError::ToolCall(format!("{} ({})", refusal.message, refusal.code)),
        None => error,
    }
}

/// Returns `true` if the error says that the server does not know the method.
pub(crate) fn is_unknown_method(error: &McpError) -> bool {
    let McpError::Other(error) = error else { return false };
    error
        .downcast_ref::<McpRequestError>()
        .is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND.0)
}

/// Returns `true` if a server rejected a request because of its headers. The server has not acted on the request.
pub(crate) fn is_header_mismatch(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(data) if data.code == ErrorCode::HEADER_MISMATCH)
}

/// Creates the error response for a handler that failed.
pub(crate) fn handler_failed(message: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(message.to_string(), None)
}

/// Converts the error of a failed connection attempt. `name` is the command or the URL of the server.
pub(crate) fn from_initialize(name: &str, error: &ClientInitializeError) -> McpError {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            McpError::Connection(format!("{name}: {}", transport_text(error)))
        }
        ClientInitializeError::ConnectionClosed(_) => {
            McpError::Connection(format!("{name}: the server closed the connection immediately"))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            from_initialize(name, fallback)
        }
        ClientInitializeError::JsonRpcError(refusal) => {
            let text = match not_taken("initialize", refusal) {
                Some(error) => error.to_string(),
                None => {
                    let message = shortened(&refusal.message);
                    format!("the server refused: {message} ({})", refusal.code.0)
                }
            };
            McpError::Initialization(format!("{name}: {text}"))
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> =
                server_supported.iter().map(|version| version.as_str()).collect();
            McpError::Initialization(format!(
                "{name}: the server supports no protocol version that this client allows, only {}",
                shortened(&versions.join(", "))
            ))
        }
        other => McpError::Initialization(format!("{name}: {}", shortened(&other.to_string()))),
    }
}

/// Returns the transport error within the error of a request. Returns `None` if the transport did not fail.
pub(crate) fn cause_of_service(
    error: &ServiceError,
) -> Option<&(dyn Error + Send + Sync + 'static)> {
    match error {
        ServiceError::TransportSend(error) => Some(error.error.as_ref()),
        _ => None,
    }
}

/// Returns the transport error within the error of a handshake. Returns `None` if the transport did not fail.
pub(crate) fn cause_of_initialize(
    error: &ClientInitializeError,
) -> Option<&(dyn Error + Send + Sync + 'static)> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            cause_of_initialize(fallback)
        }
        _ => None,
    }
}

/// Returns `true` if another connection attempt, with an `initialize` handshake, may succeed. This is possible if the
/// server supports only older versions. `wanted` are the versions that the client allows.
pub(crate) fn may_want_handshake(error: &ClientInitializeError, wanted: &[McpVersion]) -> bool {
    match error {
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            server_supported.iter().any(|version| {
                peer_info::version_from_sdk(version)
                    .is_some_and(|version| version.has_handshake() && wanted.contains(&version))
            })
        }
        ClientInitializeError::TransportError { error, .. } => !is_about_access(error),
        ClientInitializeError::Cancelled | ClientInitializeError::LegacyFallbackFailed { .. } => {
            false
        }
        _ => true,
    }
}

/// Returns `true` if the server cannot be reached or denies access, so that a handshake would fail too.
fn is_about_access(error: &DynamicTransportError) -> bool {
    match http_error(error) {
        Some(StreamableHttpError::Client(error)) => error.is_connect() || error.is_timeout(),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
            true
        }
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => refusal_in(text).is_some(),
        _ => false,
    }
}

/// Returns `true` if the server has responded that it has forgotten the session (HTTP 404). It then did not act on the
/// request (MCP specification 2025-11-25, "Transports", "Session Management").
pub(crate) fn is_forgotten_session(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(http_error(error), Some(StreamableHttpError::SessionExpired))
}

/// Returns `true` if a request failed because the stream to the server's input is closed or broken. Earlier requests
/// may still receive responses.
pub(crate) fn is_broken_stream(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    // `WouldBlock` means that the server does not read fast enough, so the stream still works.
    let error = error.error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() != io::ErrorKind::WouldBlock)
}

/// Returns `true` if the connection can send no further message.
pub(crate) fn is_lost_transport(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(http_error(error), Some(StreamableHttpError::TransportChannelClosed))
}

/// Returns `true` if a failed HTTP request may have reached the server. Always `false` for other transports.
fn was_sent(error: &DynamicTransportError) -> bool {
    match http_error(error) {
        Some(StreamableHttpError::Client(error)) => !error.is_connect() && !error.is_builder(),
        Some(
            StreamableHttpError::TransportChannelClosed
            | StreamableHttpError::ReservedHeaderConflict(_),
        )
        | None => false,
        Some(_) => true,
    }
}

/// Returns the HTTP error within a transport error. Returns `None` for other transports.
fn http_error(error: &DynamicTransportError) -> Option<&StreamableHttpError<reqwest::Error>> {
    error.error.downcast_ref()
}

/// Returns the text of a transport error and its causes. Omits URLs, because they may contain secrets.
fn transport_text(error: &DynamicTransportError) -> String {
    let error: &(dyn Error + 'static) = error.error.as_ref();
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => match error.status() {
            Some(status) => refused_access(status.as_u16())
                .map_or_else(|| format!("HTTP {status}"), str::to_owned),
            None => proxy::error_text(error),
        },
        Some(StreamableHttpError::AuthRequired(AuthRequiredError { .. })) => {
            UNAUTHORIZED.to_owned()
        }
        Some(StreamableHttpError::InsufficientScope(InsufficientScopeError {
            required_scope,
            ..
        })) => match required_scope {
            Some(scope) => {
                format!("the server requires authorization for the scope `{scope}` (HTTP 403)")
            }
            None => FORBIDDEN.to_owned(),
        },
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            refusal_in(text).map_or_else(|| shortened(text), str::to_owned)
        }
        Some(StreamableHttpError::SessionExpired) => {
            "the server has forgotten the session (HTTP 404)".to_owned()
        }
        _ => shortened(&with_causes(error)),
    }
}

const UNAUTHORIZED: &str =
    "the server requires authorization, or rejected the credentials (HTTP 401)";
const FORBIDDEN: &str = "the server denies access (HTTP 403)";

/// Returns a description if an error text of the SDK starts with an HTTP status that denies access, such as `HTTP 401`.
/// Returns `None` for any other text.
fn refusal_in(text: &str) -> Option<&'static str> {
    refused_access(text.strip_prefix("HTTP ")?.get(..3)?.parse().ok()?)
}

/// Returns the description of an HTTP status that denies access. Returns `None` for another status.
fn refused_access(status: u16) -> Option<&'static str> {
    match status {
        401 => Some(UNAUTHORIZED),
        403 => Some(FORBIDDEN),
        407 => Some("the proxy requires a user name and a password (HTTP 407)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: ErrorData, expected: &str) {
        assert_eq!(refused("tools/call", error).to_string(), expected);
    }

    #[test]
    fn errors_of_this_client_are_not_refusals() {
        check(
            too_long(9),
            "tools/call: the server's answer has more than 9 bytes, a limit of this client (`max_message_bytes`)",
        );
        let error = serde_json::from_str::<Value>("{").unwrap_err();
        check(
            unreadable(&error),
            "tools/call: the server's answer cannot be read: EOF while parsing an object at line 1 column 1",
        );
    }

    /// A server must not be able to send an error that looks like an exceeded limit of this client.
    #[test]
    fn server_cannot_fake_an_error_of_this_client() {
        for data in [json!({ "mark": "", "limit": 1 }), json!({ "mark": "0".repeat(32) }), json!(1)]
        {
            check(
                ErrorData::internal_error("no", Some(data)),
                "the server refused tools/call: no (-32603)",
            );
        }
        for code in [i32::MIN, i32::MIN + 1] {
            let error = ErrorData::new(ErrorCode(code), "no", Some(1.into()));
            check(error, &format!("the server refused tools/call: no ({code})"));
        }
    }
}
