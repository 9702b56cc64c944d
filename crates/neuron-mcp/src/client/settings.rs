//! Settings and state that all connections of a client share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::RwLock;

use super::authorization::Authorization;
use super::events::EventSender;
use super::handlers::Handlers;
use crate::propagation::Propagation;
use crate::{LogLevel, McpImplementation, McpVersion};

/// Maximum number of times that a server may require input for one request (MCP since 2026-07-28).
pub(super) const MAX_INPUT_ROUNDS: usize = 10;

/// The settings of a client, from [`McpClientBuilder`](crate::McpClientBuilder).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) implementation: McpImplementation,
    /// Protocol versions that the client allows, newest first.
    pub(super) versions: Vec<McpVersion>,
    pub(super) request_timeout: Duration,
    pub(super) max_request_time: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) max_message_bytes: usize,
    pub(super) reconnect: bool,
    pub(super) propagation: Propagation,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            implementation: McpImplementation {
                name: "neuron".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Default::default()
            },
            versions: McpVersion::ALL.into_iter().rev().collect(),
            request_timeout: Duration::from_secs(60),
            max_request_time: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(30),
            max_message_bytes: 16 * 1024 * 1024,
            reconnect: true,
            propagation: Propagation::default(),
        }
    }
}

/// The settings and the state that all connections of a client share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) handlers: Arc<Handlers>,
    pub(super) events: Arc<EventSender>,
    pub(super) authorization: Authorization,
    /// Lock for changes of the subscriptions. A task that changes a subscription holds the write lock. A new connection
    /// holds the read lock while it subscribes.
    ///
    /// Only spawned tasks may acquire the lock. A future of the user may no longer be polled, and would then never
    /// release the lock.
    pub(super) changing: RwLock<()>,
    /// The log level and the subscriptions, which the client sends to the server over each new connection.
    restored: Mutex<Restored>,
}

/// The log level and the subscriptions that a client sends to the server over each new connection.
#[derive(Debug, Default)]
struct Restored {
    /// Minimum level of the log messages that the server should send. `None` if the user has set no level.
    log_level: Option<LogLevel>,
    /// URIs of the subscribed resources.
    subscriptions: BTreeSet<String>,
}

impl Shared {
    pub(super) fn new(settings: Settings, handlers: Handlers, log_level: Option<LogLevel>) -> Self {
        Self {
            settings,
            handlers: Arc::new(handlers),
            events: Arc::default(),
            authorization: Authorization::default(),
            changing: RwLock::default(),
            restored: Mutex::new(Restored { log_level, ..Restored::default() }),
        }
    }

    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).log_level
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.restored.lock().unwrap_or_else(PoisonError::into_inner).log_level = Some(level);
    }

    /// Returns the URIs of the subscribed resources.
    pub(super) fn subscriptions(&self) -> Vec<String> {
        let restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.subscriptions.iter().cloned().collect()
    }

    pub(super) fn has_subscription(&self, uri: &str) -> bool {
        let restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.subscriptions.contains(uri)
    }

    /// Adds a subscription. Returns `false` if the client already has the subscription.
    pub(super) fn add_subscription(&self, uri: &str) -> bool {
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.subscriptions.insert(uri.to_owned())
    }

    /// Removes a subscription. Does nothing if the client does not have it.
    pub(super) fn remove_subscription(&self, uri: &str) {
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.subscriptions.remove(uri);
    }
}
