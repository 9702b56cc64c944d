//! A Restate server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::http;
use crate::fetched::program::RESTATE;
use crate::fetched::{find, or_skip};
use crate::server_process::{ATTEMPTS, Launch, Recipe, Server, answers, free_ports};

/// A Restate server of this process's own: a single node, with fresh data.
///
/// Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct RestateServer {
    ports: Ports,
    recipe: Recipe,
    server: Mutex<Server>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    ingress: u16,
    admin: u16,
    node: u16,
}

impl RestateServer {
    /// Returns the server that all tests of this process share, and starts it with the first call.
    ///
    /// Where Restate cannot be had it returns `None`, and one line on standard error says that something
    /// was not tested.
    ///
    /// # Panics
    ///
    /// If the server cannot be started; with the environment variable `CI=true` also where Restate cannot
    /// be had.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<RestateServer>> = LazyLock::new(RestateServer::or_skip);
        SHARED.as_ref()
    }

    /// Starts a server of its own, for tests that stop or kill it. Where Restate cannot be had it does as
    /// [`shared`](Self::shared).
    ///
    /// # Panics
    ///
    /// As [`shared`](Self::shared).
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        or_skip(&RESTATE, Self::start())
    }

    /// Starts a server with fresh data. It blocks until the server takes requests.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] where Restate cannot be had; else what the system or the server says.
    pub fn start() -> io::Result<Self> {
        Self::start_with(None)
    }

    /// Starts a server whose data are in this folder, which is made if it is not there, and stays. It
    /// blocks until the server takes requests.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(data: &Path) -> io::Result<Self> {
        Self::start_with(Some(std::path::absolute(data)?))
    }

    fn start_with(data: Option<PathBuf>) -> io::Result<Self> {
        let program = find::program(&RESTATE)?;
        for _ in 0..ATTEMPTS {
            let mut server = Server::new()?;
            let [ingress, admin, node] = free_ports()?;
            let ports = Ports { ingress, admin, node };
            let data = data.clone().unwrap_or_else(|| server.folder().join("data"));
            let recipe = ports.recipe(program.clone(), &data);
            // Another may take a port meanwhile.
            if let Launch::Ready = server.launch(&recipe, || ports.are_ready())? {
                return Ok(Self { ports, recipe, server: Mutex::new(server) });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Starts the server again, with the data and the ports that it had, after [`kill`](Self::kill) or
    /// [`stop`](Self::stop). It blocks until the server takes requests. A server that runs is killed first.
    ///
    /// # Errors
    ///
    /// What the system or the server says.
    pub fn restart(&self) -> io::Result<()> {
        super::restart(&mut self.server(), &self.recipe, || self.ports.are_ready())
    }

    /// Kills the server (SIGKILL), as a failing machine would. It blocks until the server is gone.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn kill(&self) -> io::Result<()> {
        self.server().kill()
    }

    /// Stops the server (SIGTERM), and kills it if it takes more than 30 seconds. It blocks until the
    /// server is gone.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn stop(&self) -> io::Result<()> {
        self.server().stop()
    }

    /// Returns where handlers are called, such as `http://127.0.0.1:8080`, without a slash at the end.
    #[must_use]
    pub fn ingress_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.ingress)
    }

    /// Returns where the server is administered, such as `http://127.0.0.1:9070`, without a slash at the
    /// end.
    #[must_use]
    pub fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.admin)
    }

    /// Registers a deployment: the address at which services listen, such as `http://127.0.0.1:9080`. The
    /// server asks it for its services, so it must be served meanwhile. An earlier deployment at this
    /// address is replaced.
    ///
    /// # Errors
    ///
    /// What the server says if it cannot reach the deployment, and what the system says.
    ///
    /// # Cancel safety
    ///
    /// The server may register the deployment or not.
    pub async fn register(&self, deployment_url: &str) -> io::Result<()> {
        let body = json!({"uri": deployment_url, "force": true});
        let (status, answer) = http::post(self.ports.admin, "/deployments", &body).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(refused(status, &answer)),
        }
    }

    /// Asks the server's own tables, such as `sys_invocation` and `sys_journal`, in SQL. Each row is an
    /// object with the columns as its keys.
    ///
    /// # Errors
    ///
    /// What the server says of the query, and what the system says.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub async fn query(&self, sql: &str) -> io::Result<Vec<Value>> {
        let (status, answer) =
            http::post(self.ports.admin, "/query", &json!({"query": sql})).await?;
        if !status.is_success() {
            return Err(refused(status, &answer));
        }
        let mut answer: Value = serde_json::from_slice(&answer)?;
        match answer.get_mut("rows").map(Value::take) {
            Some(Value::Array(rows)) => Ok(rows),
            _ => Err(io::Error::other(format!("the answer has no rows: {answer}"))),
        }
    }

    /// Returns the number of the server's process; none after [`kill`](Self::kill) and
    /// [`stop`](Self::stop).
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.server().process_id()
    }

    /// Returns what the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.server().log()
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ports {
    fn are_ready(self) -> bool {
        answers(self.admin, "/health") && answers(self.ingress, "/restate/health")
    }

    fn recipe(self, program: PathBuf, data: &Path) -> Recipe {
        let local = |port: u16| format!("127.0.0.1:{port}");
        let variables = vec![
            // Else it listens on sockets in its folder too.
            ("RESTATE_LISTEN_MODE", "tcp".to_owned()),
            ("RESTATE_BASE_DIR", data.display().to_string()),
            ("RESTATE_INGRESS__BIND_ADDRESS", local(self.ingress)),
            ("RESTATE_ADMIN__BIND_ADDRESS", local(self.admin)),
            ("RESTATE_BIND_ADDRESS", local(self.node)),
            ("RESTATE_ADVERTISED_ADDRESS", format!("http://{}", local(self.node))),
            ("RESTATE_NODE_NAME", "neuron".to_owned()),
            ("RESTATE_LOG_FORMAT", "compact".to_owned()),
            ("RESTATE_LOG_DISABLE_ANSI_CODES", "true".to_owned()),
            ("RESTATE_DISABLE_TELEMETRY", "true".to_owned()),
            // A small machine is enough.
            ("RESTATE_DEFAULT_NUM_PARTITIONS", "1".to_owned()),
            ("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "64MB".to_owned()),
        ];
        Recipe { program, args: Vec::new(), variables }
    }
}

fn refused(status: ::http::StatusCode, answer: &[u8]) -> io::Error {
    io::Error::other(format!("status {status}: {}", String::from_utf8_lossy(answer)))
}
