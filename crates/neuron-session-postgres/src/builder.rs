//! The builder of the session storage ([`PostgresSessionStorageBuilder`]).

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Manager, Pool, Runtime, Timeouts};
use neuron_types::StorageError;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::PostgresSessionStorage;
use crate::connection::Connections;
use crate::error;
use crate::schema::Schema;

/// Builder of a [`PostgresSessionStorage`]. Finish it with [`connect`](Self::connect),
/// [`connect_tls`](Self::connect_tls) or [`pool`](Self::pool).
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use neuron_session_postgres::PostgresSessionStorage;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuron_types::StorageError> {
/// # let Some(server) = neuron_testkit::postgres::PostgresServer::shared() else { return Ok(()) };
/// # let url = server.url("postgres");
/// let storage = PostgresSessionStorage::builder()
///     .schema("support_agents")
///     .max_connections(16)
///     .timeout(Duration::from_secs(5))
///     .connect(&url)
///     .await?;
/// # drop(storage);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct PostgresSessionStorageBuilder {
    /// Name of the schema that contains the tables.
    schema: String,
    /// Maximum number of open connections.
    max_connections: usize,
    /// Maximum wait of a call for a connection.
    timeout: Duration,
}

impl PostgresSessionStorageBuilder {
    pub(crate) fn new() -> Self {
        Self { schema: "neuron".into(), max_connections: 8, timeout: Duration::from_secs(30) }
    }

    /// Sets the database schema that contains the tables. The schema is created if it does not exist. Storages with
    /// different schemas have separate sessions. Default: `neuron`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum number of open connections. Default: 8. Minimum: 1. Further calls wait for a free connection.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the maximum wait of a call for a free connection, and for opening a new one. Default: 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects to the server at the address `url` without TLS, and creates or migrates the tables. An example of an
    /// address is `postgres://user:password@host:5432/database`.
    ///
    /// The address is a connection URL as defined by libpq. It supports several hosts and options such as
    /// `connect_timeout`, `keepalives_idle`, `tcp_user_timeout` and `target_session_attrs` (see [`Config`]). Special
    /// characters in the address, such as `@` in a password, must be percent-encoded.
    ///
    /// # Errors
    ///
    /// - [`StorageError::Io`] if the server cannot be reached.
    /// - [`StorageError::UnsupportedVersion`] if a newer version of this crate created the tables.
    /// - [`StorageError::Other`] if the address is invalid or the server rejects the connection. Possible causes are a
    ///   wrong password, a missing database or missing rights.
    ///
    /// No error contains the password.
    pub async fn connect(self, url: &str) -> Result<PostgresSessionStorage, StorageError> {
        self.connect_tls(url, NoTls).await
    }

    /// Connects like [`connect`](Self::connect), but with the TLS connector `tls`. To require encryption, add
    /// `sslmode=require` to the address.
    ///
    /// # Errors
    ///
    /// The same errors as [`connect`](Self::connect).
    pub async fn connect_tls<T>(
        self,
        url: &str,
        tls: T,
    ) -> Result<PostgresSessionStorage, StorageError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let config = parse(url)?;
        let place = Place(&config).to_string();
        let timeouts = Timeouts {
            wait: Some(self.timeout),
            create: Some(self.timeout),
            recycle: Some(self.timeout),
        };
        let pool = Pool::builder(Manager::new(config, tls))
            .max_size(self.max_connections)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StorageError::Other(error.into()))?;
        PostgresSessionStorage::open(Connections::new(pool, place), Schema::new(&self.schema)).await
    }

    /// Uses an existing pool with its own TLS, timeouts and hooks, and creates or migrates the tables. The builder's
    /// settings [`max_connections`](Self::max_connections) and [`timeout`](Self::timeout) have no effect.
    ///
    /// If a future is dropped or the server fails, the state of the connection is unknown. Such a connection is removed
    /// from the pool and closed.
    ///
    /// # Errors
    ///
    /// The same errors as [`connect`](Self::connect).
    pub async fn pool(self, pool: Pool) -> Result<PostgresSessionStorage, StorageError> {
        let connections = Connections::new(pool, "PostgreSQL".into());
        PostgresSessionStorage::open(connections, Schema::new(&self.schema)).await
    }
}

/// Parses the address of a PostgreSQL server. Errors do not quote the address, because it may contain a password.
fn parse(url: &str) -> Result<Config, StorageError> {
    // The client's error is not used, because it may quote the address.
    let Ok(config) = url.parse::<Config>() else {
        return Err(error::settings(
            "the address cannot be read; it is written as \
             `postgres://user:password@host:5432/database`, with special characters percent-encoded",
        ));
    };
    // An `@` in a password that was not encoded ends the password too early. The rest of the password would then be
    // part of the host.
    let has_at_sign = |text: &str| text.contains('@');
    let hosts = || {
        config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if has_at_sign(name)))
    };
    if config.get_dbname().is_some_and(has_at_sign) || hosts() {
        return Err(error::settings(
            "the host or the database of the address has an `@`: in a password it is written as `%40`",
        ));
    }
    Ok(config)
}

/// The location of the server for error texts. Displays the database, hosts and ports. Does not display the user, the
/// password or the options.
struct Place<'a>(&'a Config);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = self.0.get_dbname() {
            write!(f, "database {database} at ")?;
        }
        let ports = self.0.get_ports();
        for (index, host) in self.0.get_hosts().iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(folder) => write!(f, "{}", folder.display())?,
            }
            // A single port applies to all hosts.
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            write!(f, ":{port}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_contains_no_credentials() {
        let check = |url: &str, expected: &str| {
            assert_eq!(Place(&parse(url).unwrap()).to_string(), expected);
        };
        check(
            "postgres://me:secret@db.example.org/agents",
            "database agents at db.example.org:5432",
        );
        check(
            "postgres://me:secret@a:1,b:2/agents?connect_timeout=3",
            "database agents at a:1, b:2",
        );
        check("host=a,b port=7 password=secret", "a:7, b:7");
        check("postgres:///agents?host=/run/postgresql", "database agents at /run/postgresql:5432");
    }

    #[test]
    fn error_of_invalid_address_contains_no_password() {
        for url in [
            "postgres://me:secret@host:port/agents",
            "host=a secret=x",
            "postgres://me:half@secret@host/agents",
            "postgres://me:half@x/secret@host/agents",
            "mysql://me:secret@host/agents",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
