//! A Restate server with a single node.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::fetch::{Program, RESTATE};
use crate::http::{is_healthy, post};
use crate::server::{Recipe, Server, Service, free_ports};

/// A Restate server with fresh data.
pub type RestateServer = Server<Restate>;

/// The ports of a Restate server.
#[derive(Debug)]
pub struct Restate {
    ingress: u16,
    admin: u16,
}

impl Server<Restate> {
    /// Returns the server that all tests of this process share. The first call starts the server.
    ///
    /// Returns `None` if Restate is not available, like [`or_skip`](Self::or_skip).
    ///
    /// # Panics
    ///
    /// Panics like [`or_skip`](Self::or_skip).
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<RestateServer>> = LazyLock::new(RestateServer::or_skip);
        SHARED.as_ref()
    }

    /// Starts a server with its data in the folder `data`, which is not removed with the server. The folder is created
    /// if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`start`](Self::start).
    pub fn start_in(data: &Path) -> io::Result<Self> {
        Self::launch(&RESTATE.find()?, Some(&std::path::absolute(data)?))
    }

    /// Returns the URL of the ingress, which calls handlers, such as `http://127.0.0.1:8080`. The URL has no trailing
    /// slash.
    #[must_use]
    pub fn ingress_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.service.ingress)
    }

    /// Returns the URL of the admin API, such as `http://127.0.0.1:9070`. The URL has no trailing slash.
    #[must_use]
    pub fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.service.admin)
    }

    /// Registers the deployment whose services listen at `deployment_url`, such as `http://127.0.0.1:9080`.
    ///
    /// The server requests the list of services from the deployment, so the deployment must be running. An earlier
    /// deployment at the same URL is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error with the server's response if the server cannot reach the deployment, or an I/O error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may still register the deployment.
    pub async fn register(&self, deployment_url: &str) -> io::Result<()> {
        let body = json!({"uri": deployment_url, "force": true});
        self.administer("/deployments", &body).await.map(drop)
    }

    /// Queries the server's own tables, such as `sys_invocation` and `sys_journal`, with SQL. Returns one JSON object
    /// per row, whose keys are the columns.
    ///
    /// # Errors
    ///
    /// Returns an error with the server's response if the server rejects the query, or an I/O error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A query does not change any data.
    pub async fn query(&self, sql: &str) -> io::Result<Vec<Value>> {
        let body = self.administer("/query", &json!({"query": sql})).await?;
        let mut body: Value = serde_json::from_str(&body)?;
        match body.get_mut("rows").map(Value::take) {
            Some(Value::Array(rows)) => Ok(rows),
            _ => Err(io::Error::other(format!("the response has no rows: {body}"))),
        }
    }

    /// Sends a POST request to the admin API. Returns the body, or an error if the status is not a success.
    async fn administer(&self, path: &str, body: &Value) -> io::Result<String> {
        match post(self.service.admin, path, body.to_string()).await? {
            (200..=299, body) => Ok(body),
            (status, body) => Err(io::Error::other(format!("status {status}: {body}"))),
        }
    }
}

impl Service for Restate {
    const PROGRAM: &'static Program = &RESTATE;

    fn prepare(program: &Path, _folder: &Path, data: &Path) -> io::Result<(Self, Recipe)> {
        let [ingress, admin, node] = free_ports()?;
        let local = |port: u16| format!("127.0.0.1:{port}");
        let variables = vec![
            // By default the server also listens on Unix sockets in its folder.
            ("RESTATE_LISTEN_MODE", "tcp".to_owned()),
            ("RESTATE_BASE_DIR", data.display().to_string()),
            ("RESTATE_INGRESS__BIND_ADDRESS", local(ingress)),
            ("RESTATE_ADMIN__BIND_ADDRESS", local(admin)),
            ("RESTATE_BIND_ADDRESS", local(node)),
            ("RESTATE_ADVERTISED_ADDRESS", format!("http://{}", local(node))),
            ("RESTATE_NODE_NAME", "neuron".to_owned()),
            ("RESTATE_LOG_FORMAT", "compact".to_owned()),
            ("RESTATE_LOG_DISABLE_ANSI_CODES", "true".to_owned()),
            ("RESTATE_DISABLE_TELEMETRY", "true".to_owned()),
            // The defaults are for a production server. These values are sufficient for tests on a small machine.
            ("RESTATE_DEFAULT_NUM_PARTITIONS", "1".to_owned()),
            ("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "64MB".to_owned()),
        ];
        let recipe = Recipe { program: program.to_owned(), variables, ..Recipe::default() };
        Ok((Self { ingress, admin }, recipe))
    }

    fn is_ready(&self, _log: &str) -> bool {
        is_healthy(self.admin, "/health") && is_healthy(self.ingress, "/restate/health")
    }
}
