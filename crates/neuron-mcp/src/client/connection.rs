//! A single connection to a server, and how it is opened.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{ClientConfig, ServerPeerInfo};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, RoleClient,
    RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;

use super::callbacks::Callbacks;
use super::listen::Listener;
use super::negotiation::Negotiation;
use super::settings::Shared;
use super::stdio::ExitReport;
use super::task::Task;
use super::watch::{Watch, Watched};
use crate::McpVersion;
use crate::erased::erased;
use crate::route::Route;
use crate::text::{cleaned, shortened};
use crate::wire;

/// Maximum time for closing a connection. In this time, a child process is asked to end, and then killed if necessary.
const CLOSING: Duration = Duration::from_secs(10);

/// Opens connections to one server. Can be used repeatedly.
pub(super) trait Connector: Sized + Send + Sync + 'static {
    /// The transport that sends and receives the messages of a connection.
    type Transport: Transport<RoleClient> + 'static;

    /// Returns the command or the URL of the server, for error messages.
    fn name(&self) -> &str;

    /// Returns the address of the proxy, for error messages. Returns `None` for a direct connection.
    fn proxy(&self) -> Option<&str> {
        None
    }

    /// Opens a connection. Sends no message.
    fn open(&self) -> impl Future<Output = Result<Opened<Self::Transport>, McpError>> + Send;

    /// Opens a connection and negotiates the protocol version, within the connect timeout of the settings.
    fn connect(
        &self,
        shared: &Arc<Shared>,
    ) -> impl Future<Output = Result<Connection, McpError>> + Send {
        connect(self, shared)
    }
}

/// A connection on which no message has been sent yet.
pub(super) struct Opened<T> {
    pub(super) transport: T,
    pub(super) route: Route,
    /// Reports why the server ended, for error messages. `None` for a server that is not a child process.
    pub(super) exit_report: Option<ExitReport>,
}

erased! {
    /// A type-erased [`Connector`].
    pub(super) trait Connect<'a>: Connector {
        async fn connect(shared: &'a Arc<Shared>) -> Result<Connection, McpError>;
    }
}

/// Opens a connection and negotiates the protocol version. If the server requires an authorization, obtains it and
/// opens a new connection.
async fn connect(connector: &impl Connector, shared: &Arc<Shared>) -> Result<Connection, McpError> {
    let limit = shared.settings.connect_timeout;
    let mut access = shared.authorization.attempt();
    loop {
        let mut exit_report = None;
        let work = negotiate(connector, shared, &mut exit_report);
        let error = match tokio::time::timeout(limit, work).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(Failure::Ours(error))) => error,
            Ok(Err(Failure::Sdk(error))) => {
                // The connect timeout does not include the authorization, because a user may need longer.
                if access.answer(wire::error::cause_of_initialize(&error)).await? {
                    continue;
                }
                wire::error::from_initialize(connector.name(), &error)
            }
            Err(_) => {
                let name = connector.name();
                let proxy = connector.proxy();
                let proxy =
                    proxy.map(|proxy| format!(" through the proxy {proxy}")).unwrap_or_default();
                McpError::Connection(format!("{name}: no answer{proxy} within {limit:?}"))
            }
        };
        return Err(with_exit_report(error, exit_report.as_ref()).await);
    }
}

/// The reason why a connection attempt failed.
enum Failure {
    Sdk(Box<ClientInitializeError>),
    Ours(McpError),
}

/// Adds the exit status of the server and the last lines of its standard error to a connection error. Returns the error
/// unchanged if nothing is known, or if it is another kind of error.
pub(super) async fn with_exit_report(
    error: McpError,
    exit_report: Option<&ExitReport>,
) -> McpError {
    let Some(exit_report) = exit_report else { return error };
    let Some(words) = exit_report.describe().await.map(cleaned) else { return error };
    match error {
        McpError::Connection(text) => McpError::Connection(format!("{text}; {words}")),
        McpError::Initialization(text) => McpError::Initialization(format!("{text}; {words}")),
        McpError::Transport(text) => McpError::Transport(format!("{text}; {words}")),
        error => error,
    }
}

/// Opens a connection and negotiates a version that both sides support. Sets `exit_report` once the connection is open.
/// If an error follows, the caller can use it to report why the server ended.
async fn negotiate<C: Connector>(
    connector: &C,
    shared: &Arc<Shared>,
    exit_report: &mut Option<ExitReport>,
) -> Result<Connection, Failure> {
    let wanted = &shared.settings.versions;
    let preferred_versions: Vec<_> = wanted
        .iter()
        .filter(|version| !version.has_handshake())
        .map(|version| wire::peer_info::version_to_sdk(*version))
        .collect();
    let newest = wanted.iter().copied().filter(|version| version.has_handshake()).max();
    let legacy_version = newest.map(wire::peer_info::version_to_sdk);
    let first = match (preferred_versions.is_empty(), newest) {
        (true, None) => {
            let text =
                "no protocol version is allowed: set `McpClientBuilder::versions`".to_owned();
            return Err(Failure::Ours(McpError::Initialization(text)));
        }
        (true, Some(_)) => ClientLifecycleMode::Initialize,
        (false, None) => ClientLifecycleMode::Discover { preferred_versions },
        (false, Some(_)) => ClientLifecycleMode::Auto { preferred_versions, legacy_version },
    };
    let may_fall_back = matches!(first, ClientLifecycleMode::Auto { .. });
    let connection = match serve(connector, shared, first, exit_report).await {
        // An older server may end when it receives a request with an unknown method.
        Err(Failure::Sdk(error))
            if may_fall_back && wire::error::may_want_handshake(&error, wanted) =>
        {
            tracing::debug!(target: "neuron_mcp", server = connector.name(), %error, "retrying the connection with an `initialize` handshake");
            serve(connector, shared, ClientLifecycleMode::Initialize, exit_report).await
        }
        first => first,
    };
    let connection = Connection::new(connector.name(), shared, connection?, exit_report.clone())
        .map_err(Failure::Ours)?;
    // The cache is disabled, because a cached list may be older than the last `list_changed` notification.
    let mut no_cache = ClientCacheConfig::default();
    no_cache.enabled = false;
    connection.peer.set_response_cache_config(no_cache).await;
    Ok(connection)
}

type Service = RunningService<RoleClient, Callbacks>;

/// Opens a connection and negotiates the version. `mode` tells the SDK to use `server/discover`, `initialize` or both.
/// Sets `exit_report` once the connection is open. If an error follows, the caller can use it to report why the server
/// ended.
async fn serve<C: Connector>(
    connector: &C,
    shared: &Arc<Shared>,
    mode: ClientLifecycleMode,
    exit_report: &mut Option<ExitReport>,
) -> Result<Service, Failure> {
    let opened = connector.open().await.map_err(Failure::Ours)?;
    *exit_report = opened.exit_report;
    let (events, handlers) = (Arc::clone(&shared.events), Arc::clone(&shared.handlers));
    let watch = Arc::new(Watch::new(events, handlers, opened.route));
    let callbacks = Callbacks {
        config: client_config(shared),
        handlers: Arc::clone(&shared.handlers),
        watch: Arc::clone(&watch),
        propagation: shared.settings.propagation.clone(),
    };
    let transport = Watched::new(opened.transport, watch, Negotiation::new(&shared.settings));
    // Detached from the current span, because the SDK keeps the current span until the connection ends.
    let serving = Task::detached(serve_client_with_lifecycle(callbacks, transport, mode));
    match serving.result().await {
        Some(served) => served.map_err(|error| Failure::Sdk(Box::new(error))),
        None => {
            let text = format!("{}: the connection attempt was aborted", connector.name());
            Err(Failure::Ours(McpError::Connection(text)))
        }
    }
}

/// Returns the client's name, capabilities and protocol version, which the client sends in the handshake.
fn client_config(shared: &Shared) -> ClientConfig {
    let settings = &shared.settings;
    // The extension for tasks requires version 2026-07-28.
    let tasks = settings.versions.iter().any(|version| !version.has_handshake());
    let capabilities = wire::capabilities::to_sdk(shared.handlers.abilities(tasks));
    let implementation = wire::peer_info::implementation_to_sdk(&settings.implementation);
    let mut config = ClientConfig::new(capabilities, implementation);
    if let Some(version) = settings.versions.iter().filter(|version| version.has_handshake()).max()
    {
        config.protocol_version = wire::peer_info::version_to_sdk(*version);
    }
    config
}

/// A connection to a server, on which the protocol version has been negotiated.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) watch: Arc<Watch>,
    pub(super) version: McpVersion,
    pub(super) server: Arc<ServerPeerInfo>,
    pub(super) listener: Listener,
    /// Reports why the server ended. `None` for a server that is not a child process.
    pub(super) exit_report: Option<ExitReport>,
    /// The connection of the SDK. Dropping this value ends the connection. `None` once the connection is closed.
    service: Mutex<Option<Service>>,
}

impl Connection {
    /// Checks the negotiated version and creates the connection.
    fn new(
        name: &str,
        shared: &Shared,
        service: Service,
        exit_report: Option<ExitReport>,
    ) -> Result<Self, McpError> {
        let Some(server) = service.peer().peer_info() else {
            return Err(McpError::Initialization(format!(
                "{name}: the server sent no information about itself"
            )));
        };
        let offered = &server.protocol_version;
        let version = wire::peer_info::version_from_sdk(offered)
            .filter(|version| shared.settings.versions.contains(version));
        let Some(version) = version else {
            let offered = shortened(offered.as_str());
            return Err(McpError::Initialization(format!(
                "{name}: the server requires protocol version {offered}, which this client does not allow"
            )));
        };
        let watch = Arc::clone(&service.service().watch);
        watch.settle();
        let peer = service.peer().clone();
        Ok(Self {
            listener: Listener::new(peer.clone(), Arc::clone(&watch), Arc::clone(&server)),
            peer,
            watch,
            version,
            server,
            exit_report,
            service: Mutex::new(Some(service)),
        })
    }

    /// Ends the connection without waiting for its resources to be released.
    pub(super) fn abandon(&self) {
        self.watch.end();
        drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Closes the connection, and waits up to [`CLOSING`] until it is closed. Pending requests fail immediately.
    pub(super) async fn close(&self) {
        // Marked as ended first, so that pending requests fail immediately.
        self.watch.end();
        self.listener.stop();
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service
            && let Err(error) = service.close_with_timeout(CLOSING).await
        {
            tracing::debug!(target: "neuron_mcp", %error, "closing the connection failed");
        }
    }
}
