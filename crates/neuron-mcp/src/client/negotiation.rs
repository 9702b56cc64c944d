//! The negotiation of the protocol version with a server that responds late.
//!
//! The SDK first sends `server/discover`. A server that does not respond may not know this method, or it may still be
//! starting. After some time, the SDK therefore also sends `initialize`, and then expects only the response to
//! `initialize`. This module keeps waiting for both responses:
//!
//! - A server that accepts `initialize` uses the version of its response, even if it also knows `server/discover`.
//! - Otherwise the SDK receives the late response to `server/discover`, as if it were the response to `initialize`.

use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, Implementation,
    InitializeResult, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::select_protocol_version;
use tokio::time::Instant;

use super::settings::Settings;
use crate::wire;

/// Maximum wait for the response to `initialize` after a late response to `server/discover`. A running server sends
/// both responses without delay.
const GRACE: Duration = Duration::from_secs(1);

/// Returns the maximum wait for the response to `server/discover` before the client also sends `initialize`. The wait
/// is a third of the connect timeout, so that time remains for a second attempt without `server/discover`. Without a
/// version that has a handshake, the client waits until the connect timeout.
pub(super) fn patience(settings: &Settings) -> Duration {
    match settings.versions.iter().any(|version| version.has_handshake()) {
        true => settings.connect_timeout / 3,
        false => Duration::MAX,
    }
}

/// The negotiation of a connection's version.
#[derive(Debug)]
pub(super) struct Negotiation {
    patience: Duration,
    /// The allowed versions without a handshake, newest first.
    versions: Vec<ProtocolVersion>,
    state: State,
}

/// The error with which a server refused `initialize`, and the end of the wait for `server/discover`.
type Refusal = (Box<ServerJsonRpcMessage>, Option<Instant>);

#[derive(Debug)]
enum State {
    /// The SDK receives all messages unchanged.
    Passive,
    /// `server/discover` is pending. `until` is the end of the wait, and `None` after the end.
    Discovering { discover: RequestId, until: Option<Instant> },
    /// `server/discover` and `initialize` are pending. `refusal` is the error with which the server refused
    /// `initialize`. The SDK receives it at the end of its wait, if any.
    Both { discover: RequestId, initialize: RequestId, refusal: Option<Refusal> },
    /// `initialize` is pending. `answer` is the response to `server/discover`, which the SDK receives after `until`.
    Discovered { initialize: RequestId, answer: Box<ServerJsonRpcMessage>, until: Instant },
    /// The SDK has received the response to `server/discover` as a response to `initialize`.
    Translated,
}

impl Negotiation {
    pub(super) fn new(settings: &Settings) -> Self {
        let modern = settings.versions.iter().filter(|version| !version.has_handshake());
        Self {
            patience: patience(settings),
            versions: modern.map(|version| wire::peer_info::version_to_sdk(*version)).collect(),
            state: State::Passive,
        }
    }

    /// Takes note of a message of the SDK. Returns `false` if the message must not be sent.
    pub(super) fn sent(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => match (&request.request, &self.state) {
                (ClientRequest::DiscoverRequest(_), _) => {
                    let until = Instant::now().checked_add(self.patience);
                    self.state = State::Discovering { discover: request.id.clone(), until };
                }
                (ClientRequest::InitializeRequest(_), State::Discovering { discover, .. }) => {
                    let (discover, initialize) = (discover.clone(), request.id.clone());
                    self.state = State::Both { discover, initialize, refusal: None };
                }
                _ => {}
            },
            // The server has agreed on a version without a handshake. It would reject this part of the handshake.
            JsonRpcMessage::Notification(notification) => {
                let completes = &notification.notification;
                let is_translated = matches!(self.state, State::Translated);
                return !is_translated
                    || !matches!(completes, ClientNotification::InitializedNotification(_));
            }
            _ => {}
        }
        true
    }

    /// Returns the end of the current wait. [`expired`](Self::expired) must be called then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Discovering { until, .. } => *until,
            State::Discovered { until, .. } => Some(*until),
            State::Both { refusal, .. } => refusal.as_ref().and_then(|(_, until)| *until),
            State::Passive | State::Translated => None,
        }
    }

    /// Returns the message for the SDK at the end of a wait.
    pub(super) fn expired(&mut self) -> Option<ServerJsonRpcMessage> {
        match std::mem::replace(&mut self.state, State::Passive) {
            State::Discovering { discover, .. } => {
                let answer = no_answer(discover.clone());
                self.state = State::Discovering { discover, until: None };
                Some(answer)
            }
            State::Discovered { answer, .. } => {
                self.state = State::Translated;
                Some(*answer)
            }
            State::Both { refusal: Some((refusal, _)), .. } => Some(*refusal),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Takes note of a message of the server. Returns the message that the SDK receives instead, if any.
    pub(super) fn received(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> Option<ServerJsonRpcMessage> {
        let (id, error) = match &message {
            JsonRpcMessage::Response(response) => (Some(&response.id), None),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), Some(error.error.code)),
            _ => (None, None),
        };
        let Some(id) = id.cloned() else { return Some(message) };
        match std::mem::replace(&mut self.state, State::Passive) {
            State::Discovering { discover, .. } if discover == id => Some(message),
            State::Both { discover, initialize, refusal } if discover == id => {
                match (self.translated(message, &initialize), refusal) {
                    (Some(answer), Some(_)) => {
                        self.state = State::Translated;
                        Some(answer)
                    }
                    (Some(answer), None) => {
                        let (answer, until) = (Box::new(answer), Instant::now() + GRACE);
                        self.state = State::Discovered { initialize, answer, until };
                        None
                    }
                    (None, refusal) => refusal.map(|(refusal, _)| *refusal),
                }
            }
            State::Both { discover, initialize, .. } if initialize == id && error.is_some() => {
                // With this error, the server says that it expects `server/discover`.
                let expects = error == Some(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
                let until = (!expects).then(|| Instant::now() + GRACE);
                let refusal = Some((Box::new(message), until));
                self.state = State::Both { discover, initialize, refusal };
                None
            }
            State::Both { initialize, .. } if initialize == id => Some(message),
            State::Discovered { initialize, answer, .. } if initialize == id => match error {
                Some(_) => {
                    self.state = State::Translated;
                    Some(*answer)
                }
                None => Some(message),
            },
            state => {
                self.state = state;
                Some(message)
            }
        }
    }

    /// Converts the result of `server/discover` to a response to the request `initialize`. Returns `None` for an error,
    /// and if the server supports none of the allowed versions without a handshake.
    fn translated(
        &self,
        message: ServerJsonRpcMessage,
        initialize: &RequestId,
    ) -> Option<ServerJsonRpcMessage> {
        let JsonRpcMessage::Response(response) = message else { return None };
        let ServerResult::DiscoverResult(found) = response.result else { return None };
        let version = select_protocol_version(&self.versions, &found.supported_versions)?;
        let server = found.server_info().unwrap_or_else(|| Implementation::new("", ""));
        let mut result = InitializeResult::new(found.capabilities)
            .with_protocol_version(version)
            .with_server_info(server);
        result.instructions = found.instructions;
        result.meta = found.meta;
        let result = ServerResult::InitializeResult(result);
        Some(ServerJsonRpcMessage::response(result, initialize.clone()))
    }
}

/// Returns the error response that replaces a missing response to `server/discover`. The error says that the method is
/// unknown.
pub(super) fn no_answer(id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer in time", None);
    ServerJsonRpcMessage::error(error, Some(id))
}
