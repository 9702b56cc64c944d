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

use crate::erased::erased;

/// The credentials of an authorization, which are its tokens and the client that obtained them.
///
/// A storage keeps it as a whole: it is `Serialize` and `Deserialize`. The serialised form holds secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct OAuthCredentials {
    #[serde(flatten)]
    pub(super) stored: StoredCredentials,
    #[serde(flatten)]
    pub(super) registration: Registration,
}

/// Further facts about the client.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// The redirect URI for which the client is registered.
    #[serde(default)]
    pub(super) redirect_uri: String,
}

impl OAuthCredentials {
    /// The client's id at the authorization server.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.stored.client_id
    }

    /// Issuer of the tokens, if the authorization server named it.
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

/// Shows neither tokens nor the client's secret.
impl fmt::Debug for OAuthCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthCredentials")
            .field("client_id", &self.client_id())
            .field("issuer", &self.issuer())
            .field("scopes", &self.scopes())
            .finish_non_exhaustive()
    }
}

/// Keeps credentials, so that a person is asked once and not at every start.
///
/// `server` is the URL of the MCP server, so that one storage can serve many clients. Credentials are as
/// secret as a password.
pub trait OAuthStorage: Send + Sync {
    /// Loads the credentials of a server.
    ///
    /// # Errors
    ///
    /// What was saved cannot be read. The authorization ends with it.
    fn load(
        &self,
        server: &str,
    ) -> impl Future<Output = Result<Option<OAuthCredentials>, McpError>> + Send;

    /// Replaces the credentials of a server. Called after each authorization and each renewal of a token.
    ///
    /// # Errors
    ///
    /// It cannot be kept. The authorization ends with it.
    fn save(
        &self,
        server: &str,
        credentials: OAuthCredentials,
    ) -> impl Future<Output = Result<(), McpError>> + Send;

    /// Deletes the credentials of a server, which cannot be used any more.
    ///
    /// # Errors
    ///
    /// They cannot be removed.
    fn clear(&self, server: &str) -> impl Future<Output = Result<(), McpError>> + Send;
}

/// Keeps credentials as long as the program runs.
#[derive(Clone, Default)]
pub struct MemoryOAuthStorage {
    servers: Arc<Mutex<HashMap<String, OAuthCredentials>>>,
}

impl MemoryOAuthStorage {
    /// An empty storage.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, OAuthCredentials>) -> T) -> T {
        work(&mut self.servers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows which servers it knows, not the credentials.
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
    /// [`OAuthStorage`], whatever its type.
    pub(super) trait ErasedStorage<'a>: OAuthStorage {
        async fn load(server: &'a str) -> Result<Option<OAuthCredentials>, McpError>;
        async fn save(server: &'a str, credentials: OAuthCredentials) -> Result<(), McpError>;
        async fn clear(server: &'a str) -> Result<(), McpError>;
    }
}

/// A storage in the form of the SDK, for one server, with the facts about the client that the SDK does not store.
pub(super) struct SdkStore {
    pub(super) storage: Arc<dyn ErasedStorage>,
    pub(super) server: String,
    pub(super) registration: Registration,
}

/// Written out as `async_trait` would expand it, to spare a dependency.
impl CredentialStore for SdkStore {
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
        let credentials = OAuthCredentials { stored, registration: self.registration.clone() };
        Box::pin(
            async move { self.storage.save(&self.server, credentials).await.map_err(store_error) },
        )
    }

    fn clear<'a, 'b>(&'a self) -> BoxFuture<'b, Result<(), AuthError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.storage.clear(&self.server).await.map_err(store_error) })
    }
}

fn store_error(error: McpError) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
