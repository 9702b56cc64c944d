//! A client of a server ([`connect`]).

use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};

use crate::TemporalError;

/// Connects to a namespace of the server at an address such as `http://127.0.0.1:7233`, without TLS for
/// `http` and with it for `https`. Keys, certificates and headers: see
/// [`ConnectionOptions`], with which a client is made by [`Connection::connect`] and [`Client::new`].
///
/// # Errors
///
/// [`TemporalError::Other`] when the address is none, or nobody answers there.
pub async fn connect(address: &str, namespace: &str) -> Result<Client, TemporalError> {
    fn failed(error: impl Into<neuron_types::BoxError>) -> TemporalError {
        TemporalError::Other(error.into())
    }
    let address = url::Url::parse(address).map_err(failed)?;
    let connection = Connection::connect(ConnectionOptions::new(address).build()).await;
    let options = ClientOptions::new(namespace).build();
    Client::new(connection.map_err(failed)?, options).map_err(failed)
}
