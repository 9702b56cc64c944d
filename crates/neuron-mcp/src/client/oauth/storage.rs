//! The credentials of an authorization and their storage.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use neuron_types::McpError;
use rmcp::transport::AuthError;
use rmcp::transport::auth::{CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::erased::erased;
use crate::text::shortened;

/// The tokens from an authorization, with the registration of the client that obtained them.
///
/// An [`OAuthStorage`] can store the value in serialised form. The serialised form contains secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct OAuthCredentials {
    #[serde(flatten)]
    pub(super) stored: StoredCredentials,
    #[serde(flatten)]
    pub(super) registration: Registration,
}

/// Data of the client's registration at the authorization server that the SDK does not store.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// The redirect URI with which the client was registered.
    #[serde(default)]
    pub(super) redirect_uri: String,
}

impl OAuthCredentials {
    /// Returns the client's id at the authorization server.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.stored.client_id
    }

    /// Returns the issuer of the tokens. Returns `None` if the authorization server did not name itself.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.stored.issuer.as_deref()
    }

    /// Returns the granted scopes.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.stored.granted_scopes
    }
}

/// Shows neither the tokens nor the client's secret.
impl fmt::Debug for OAuthCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthCredentials")
            .field("client_id", &self.client_id())
            .field("issuer", &self.issuer())
            .field("scopes", &self.scopes())
            .finish_non_exhaustive()
    }
}

/// Stores credentials, so that the user need not authorize the client at every start.
///
/// The parameter `server` of each method is the URL of the MCP server. So one storage can serve clients of several
/// servers. Protect stored credentials like passwords.
pub trait OAuthStorage: Send + Sync {
    /// Loads the credentials for the MCP server with the URL `server`. Returns `None` if none are stored.
    ///
    /// # Errors
    ///
    /// Return an error if the stored credentials cannot be read. The authorization then fails.
    fn load(
        &self,
        server: &str,
    ) -> impl Future<Output = Result<Option<OAuthCredentials>, McpError>> + Send;

    /// Replaces the stored credentials for the MCP server with the URL `server`. Called after each authorization and
    /// each renewal of a token.
    ///
    /// # Errors
    ///
    /// Return an error if the credentials cannot be stored. The authorization then fails.
    fn save(
        &self,
        server: &str,
        credentials: OAuthCredentials,
    ) -> impl Future<Output = Result<(), McpError>> + Send;

    /// Deletes the stored credentials for the MCP server with the URL `server`. Called when the credentials are no
    /// longer valid.
    ///
    /// # Errors
    ///
    /// Return an error if the credentials cannot be deleted.
    fn clear(&self, server: &str) -> impl Future<Output = Result<(), McpError>> + Send;
}

/// A storage in memory. The credentials are lost when the program ends.
#[derive(Clone, Default)]
pub struct MemoryOAuthStorage {
    servers: Arc<Mutex<HashMap<String, OAuthCredentials>>>,
}

impl MemoryOAuthStorage {
    /// Creates an empty storage.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, OAuthCredentials>) -> T) -> T {
        work(&mut self.servers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows the URLs of the servers, but not the credentials.
impl fmt::Debug for MemoryOAuthStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|servers| f.debug_set().entries(servers.keys()).finish())
    }
}

impl OAuthStorage for MemoryOAuthStorage {
    async fn load(&self, server: &str) -> Result<Option<OAuthCredentials>, McpError> {
        Ok(self.with(|servers| servers.get(server).cloned()))
    }

    async fn save(&self, server: &str, credentials: OAuthCredentials) -> Result<(), McpError> {
        self.with(|servers| servers.insert(server.to_owned(), credentials));
        Ok(())
    }

    async fn clear(&self, server: &str) -> Result<(), McpError> {
        self.with(|servers| servers.remove(server));
        Ok(())
    }
}

erased! {
    /// A type-erased [`OAuthStorage`].
    pub(super) trait ErasedStorage<'a>: OAuthStorage {
        async fn load(server: &'a str) -> Result<Option<OAuthCredentials>, McpError>;
        async fn save(server: &'a str, credentials: OAuthCredentials) -> Result<(), McpError>;
        async fn clear(server: &'a str) -> Result<(), McpError>;
    }
}

/// Adapter from [`OAuthStorage`] to the SDK's storage of one server. Adds the client data that the SDK does not store.
pub(super) struct SdkStore {
    pub(super) storage: Arc<dyn ErasedStorage>,
    pub(super) server: String,
    pub(super) registration: Registration,
}

/// Lets the SDK load, save and delete credentials in the user's storage.
impl CredentialStore for SdkStore {
    // Written as the macro `async_trait` would generate the methods, to avoid a dependency on `async_trait`.
    fn load<'a, 'b>(&'a self) -> BoxFuture<'b, Result<Option<StoredCredentials>, AuthError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let loaded = self.storage.load(&self.server).await.map_err(store_error)?;
            Ok(loaded.map(|credentials| credentials.stored))
        })
    }

    fn save<'a, 'b>(&'a self, stored: StoredCredentials) -> BoxFuture<'b, Result<(), AuthError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            check_token_type(&stored)?;
            let credentials = OAuthCredentials { stored, registration: self.registration.clone() };
            self.storage.save(&self.server, credentials).await.map_err(store_error)
        })
    }

    fn clear<'a, 'b>(&'a self) -> BoxFuture<'b, Result<(), AuthError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.storage.clear(&self.server).await.map_err(store_error) })
    }
}

/// Returns an error if a new token is no bearer token, because the SDK sends every token as one.
fn check_token_type(stored: &StoredCredentials) -> Result<(), AuthError> {
    let Some(issued) = &stored.token_response else { return Ok(()) };
    // The trait with the method for the type belongs to a crate that the SDK does not export.
    let issued = serde_json::to_value(issued).unwrap_or_default();
    let token_type = issued.get("token_type").and_then(Value::as_str).unwrap_or_default();
    match token_type.eq_ignore_ascii_case("bearer") {
        true => Ok(()),
        false => Err(AuthError::InvalidTokenType(shortened(token_type))),
    }
}

fn store_error(error: McpError) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
