//! A single authorization, from the server's challenge to the token.

use std::collections::HashSet;
use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, OAuthClientConfig,
    OAuthHttpClient,
};

use super::callback;
use super::config::{Grant, OAuthConfig};
use super::error::OAuthError;
use super::redirect::ErasedRedirect;
use super::storage::{OAuthCredentials, Registration, SdkStore};
use crate::client::page_url::page_url;

/// The configuration, the server URL and the HTTP client with which a client obtains an OAuth token.
pub(super) struct Flow {
    pub(super) config: OAuthConfig,
    pub(super) server: Url,
    pub(super) http: Arc<dyn OAuthHttpClient>,
}

/// The identity of the client at an authorization server.
struct Client {
    id: String,
    secret: Option<String>,
}

impl Flow {
    /// Creates the SDK's manager of tokens, without a token. The manager stores each token that it obtains together
    /// with `registration`.
    pub(super) async fn manager(
        &self,
        registration: Registration,
    ) -> Result<AuthorizationManager, OAuthError> {
        let http = Arc::clone(&self.http);
        let server = self.server.clone();
        let mut manager = AuthorizationManager::new_with_oauth_http_client(server, http).await?;
        self.set_store(&mut manager, registration);
        Ok(manager)
    }

    /// Sets the storage in which the manager saves its tokens, together with `registration`.
    fn set_store(&self, manager: &mut AuthorizationManager, registration: Registration) {
        manager.set_credential_store(SdkStore {
            storage: Arc::clone(&self.config.storage),
            server: self.server.to_string(),
            registration,
        });
    }

    /// Loads the stored credentials of an earlier authorization. Returns `None` if the storage has none.
    pub(super) async fn stored(&self) -> Result<Option<OAuthCredentials>, OAuthError> {
        self.config
            .storage
            .load(self.server.as_str())
            .await
            .map_err(|error| OAuthError::Storage(error.to_string()))
    }

    /// Creates a manager with the stored credentials. Creates a manager without a token if no usable credentials are
    /// stored.
    pub(super) async fn restore(&self) -> Result<AuthorizationManager, OAuthError> {
        let redirect = match &self.config.grant {
            Grant::AuthorizationCode(redirect) => redirect,
            // A new token requires no user, and a token of this grant cannot be renewed.
            Grant::ClientCredentials => return self.manager(Registration::default()).await,
        };
        let Some(credentials) = self.stored().await? else {
            return self.manager(Registration::default()).await;
        };
        let client_id = credentials.client_id().to_owned();
        let secret = match &self.config.client {
            // The tokens belong to a client id that is no longer configured.
            Some(client) if client.id != client_id => {
                return self.manager(Registration::default()).await;
            }
            Some(client) => client.secret.clone(),
            None => credentials.registration.client_secret.clone(),
        };
        let mut manager = self.manager(credentials.registration).await?;
        if manager.initialize_from_store().await? {
            // The SDK does not store the secret, and so it has configured the client without it.
            manager.configure_client(client_config(
                &Client { id: client_id, secret },
                &redirect.redirect_uri(),
            ))?;
        }
        Ok(manager)
    }

    /// Obtains a token and returns the manager that contains the token.
    ///
    /// `challenge` is the `WWW-Authenticate` header of the server's response. `wanted` contains the scopes that the
    /// earlier token lacks, separated by spaces.
    pub(super) async fn authorize(
        &self,
        challenge: &str,
        wanted: Option<&str>,
    ) -> Result<AuthorizationManager, OAuthError> {
        let mut manager = self.manager(Registration::default()).await?;
        let metadata = manager.resolve_metadata_from_challenge(Some(challenge)).await?.metadata;
        manager.set_metadata(metadata.clone());
        // Credentials of another authorization server must not be sent to this one.
        let before = self.stored().await?.filter(|before| {
            before.issuer().is_some() && before.issuer() == metadata.issuer.as_deref()
        });
        let scopes = self.scopes(&manager, &metadata, before.as_ref(), wanted).await;
        match &self.config.grant {
            Grant::AuthorizationCode(redirect) => {
                if self.config.requires_pkce && !announces_pkce(&metadata) {
                    let text = "it does not announce PKCE (`code_challenge_methods_supported`), which \
                                `OAuthConfig::with_required_pkce` requires";
                    return Err(OAuthError::Discovery(text.to_owned()));
                }
                let uri = redirect.redirect_uri();
                let client = self.client(&mut manager, &metadata, before, &uri, &scopes).await?;
                manager.configure_client(client_config(&client, &uri))?;
                self.set_store(
                    &mut manager,
                    Registration { client_secret: client.secret, redirect_uri: uri },
                );
                self.ask_person(&manager, &metadata, redirect.as_ref(), &scopes).await?;
            }
            Grant::ClientCredentials => self.ask_server(&mut manager, &metadata, scopes).await?,
        }
        Ok(manager)
    }

    /// Returns the scopes to request. They are the union of these scopes:
    ///
    /// - the configured scopes,
    /// - the scopes of the earlier token (`before`, see SEP-2350),
    /// - the scopes that the server requires (`wanted`, separated by spaces).
    ///
    /// If no scopes are configured or required, the SDK selects initial scopes.
    async fn scopes(
        &self,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        before: Option<&OAuthCredentials>,
        wanted: Option<&str>,
    ) -> Vec<String> {
        let mut scopes = self.config.scopes.clone();
        if let Some(before) = before {
            scopes.extend_from_slice(before.scopes());
        }
        match wanted {
            Some(wanted) => scopes.extend(wanted.split_whitespace().map(str::to_owned)),
            None if self.config.scopes.is_empty() => {
                scopes.extend(manager.select_initial_scopes(&[]).await);
            }
            None => {}
        }
        // Without this scope, some servers issue no refresh token (SEP-2207).
        let offline = "offline_access";
        let supported = metadata.scopes_supported.iter().flatten().any(|scope| scope == offline);
        if supported && !scopes.is_empty() {
            scopes.push(offline.to_owned());
        }
        let mut seen = HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// Returns the identity of the client at this authorization server, and registers the client if necessary. `before`
    /// contains an earlier registration at this server, if any. The order of the possible identities is that of the MCP
    /// specification, "Client Registration".
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        before: Option<OAuthCredentials>,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<Client, OAuthError> {
        if let Some(client) = self.known_client(metadata) {
            return Ok(client);
        }
        if let Some(url) = &self.config.client_metadata_url
            && supports_metadata_documents(metadata)
        {
            if !is_metadata_url(url) {
                return Err(OAuthError::Configuration(format!(
                    "the URL of the client's metadata document must be https with a path, but is `{url}`"
                )));
            }
            return Ok(Client { id: url.clone(), secret: None });
        }
        if let Some(before) = before
            && before.registration.redirect_uri == redirect_uri
        {
            let id = before.client_id().to_owned();
            return Ok(Client { id, secret: before.registration.client_secret });
        }
        if metadata.registration_endpoint.is_none() {
            return Err(OAuthError::Registration(
                "it does not support registration; register the client manually, and pass its id to \
                 `OAuthConfig::with_client`"
                    .to_owned(),
            ));
        }
        // `register_client` uses the application type of the configured client, so a client must be configured first.
        manager.configure_client(
            OAuthClientConfig::new("", redirect_uri)
                .with_application_type(self.config.application_type.as_str()),
        )?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered =
            manager.register_client(&self.config.client_name, redirect_uri, &scopes).await?;
        Ok(Client { id: registered.client_id, secret: registered.client_secret })
    }

    /// Returns the client that was registered manually. Returns `None` if there is no such client, or if it was
    /// registered at a different authorization server.
    fn known_client(&self, metadata: &AuthorizationMetadata) -> Option<Client> {
        let client = self.config.client.as_ref()?;
        if client.issuer.is_some() && client.issuer != metadata.issuer {
            return None;
        }
        Some(Client { id: client.id.clone(), secret: client.secret.clone() })
    }

    /// Sends the user to the authorization page, and obtains a token if the user agrees.
    async fn ask_person(
        &self,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        redirect: &dyn ErasedRedirect,
        scopes: &[String],
    ) -> Result<(), OAuthError> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = manager.get_authorization_url(&scopes).await?;
        let url = page_url(&url).map_err(OAuthError::Discovery)?;
        let state = callback::state_of(&url)
            .ok_or_else(|| OAuthError::Discovery("the authorization URL has no `state`".into()))?;
        let answer = tokio::time::timeout(self.config.timeout, redirect.authorize(url))
            .await
            .map_err(|_| OAuthError::TimedOut(self.config.timeout))?
            .map_err(OAuthError::Redirect)?;
        let callback = callback::read(&answer, &state, metadata.issuer.as_deref())?;
        manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.state,
                callback.issuer.as_deref(),
            )
            .await?;
        Ok(())
    }

    /// Obtains a token with the client's own id and secret, without a user.
    async fn ask_server(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        scopes: Vec<String>,
    ) -> Result<(), OAuthError> {
        let (client_id, client_secret) = match self.known_client(metadata) {
            Some(Client { id, secret: Some(secret) }) => (id, secret),
            Some(_) => {
                return Err(OAuthError::Configuration(
                    "client credentials require a secret".into(),
                ));
            }
            None => {
                return Err(OAuthError::Issuer(
                    "the server's authorization server is not the configured issuer".into(),
                ));
            }
        };
        let config = ClientCredentialsConfig::ClientSecret {
            client_id,
            client_secret,
            scopes,
            resource: Some(self.server.to_string()),
        };
        manager.validate_client_credentials_metadata(&config)?;
        manager.configure_client_credentials(&config)?;
        manager.exchange_client_credentials(&config).await?;
        Ok(())
    }
}

fn client_config(client: &Client, redirect_uri: &str) -> OAuthClientConfig {
    let config = OAuthClientConfig::new(&client.id, redirect_uri);
    match &client.secret {
        Some(secret) => config.with_client_secret(secret),
        None => config,
    }
}

/// Returns `true` if the authorization server announces PKCE with S256.
fn announces_pkce(metadata: &AuthorizationMetadata) -> bool {
    metadata.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256")
}

/// Returns `true` if the authorization server supports client metadata documents.
fn supports_metadata_documents(metadata: &AuthorizationMetadata) -> bool {
    let field = metadata.additional_fields.get("client_id_metadata_document_supported");
    field.and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// Returns `true` if a URL is valid for a client metadata document, which must be https and have a path.
fn is_metadata_url(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
}
