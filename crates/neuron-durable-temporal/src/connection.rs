//! Connects a client to a Temporal server ([`connect`]).

use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};

use crate::TemporalError;

/// Connects to a namespace of the server at `address`, for example `http://127.0.0.1:7233`. An `https` address uses
/// TLS.
///
/// To set API keys, certificates or headers, create the client with [`ConnectionOptions`], [`Connection::connect`] and
/// [`Client::new`] instead.
///
/// # Errors
///
/// [`TemporalError::Other`] if the address is invalid or the server cannot be reached.
pub async fn connect(address: &str, namespace: &str) -> Result<Client, TemporalError> {
    fn failed(error: impl Into<neuron_types::BoxError>) -> TemporalError {
        TemporalError::Other(error.into())
    }
    let address = url::Url::parse(address).map_err(failed)?;
    let connection = Connection::connect(ConnectionOptions::new(address).build()).await;
    let options = ClientOptions::new(namespace).build();
    Client::new(connection.map_err(failed)?, options).map_err(failed)
}
