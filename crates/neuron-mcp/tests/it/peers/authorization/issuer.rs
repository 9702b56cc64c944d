//! An authorization server that grants every request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use neuron_mcp::{HttpIdentity, HttpRefusal, TokenClaims};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Answer = Response<Full<Bytes>>;

/// A running authorization server. Stops when dropped.
pub(super) struct Issuer {
    address: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

/// An authorization that a user has granted.
#[derive(Clone)]
struct Grant {
    resource: String,
    scope: String,
    /// PKCE challenge of the authorization request.
    challenge: String,
}

#[derive(Default)]
struct State {
    /// Log of the registrations, authorizations and token requests, one line each, in order.
    log: Vec<String>,
    /// Granted authorizations, by the unused authorization code or refresh token.
    grants: HashMap<String, Grant>,
    /// Claims of each issued access token.
    tokens: HashMap<String, TokenClaims>,
    /// Audience of new access tokens. If `None`, the audience is the resource that the client requests.
    audience: Option<String>,
}

impl Issuer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Mutex<State>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, address.clone(), Arc::clone(&state)));
        Self { address, state, _tasks: tasks }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    /// Returns a token verifier that accepts every issued token, even an expired one. The verifier returns the claims
    /// of the token.
    pub(super) fn verifier(
        &self,
    ) -> impl Fn(String) -> Ready<Result<TokenClaims, HttpRefusal>> + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move |token| {
            let claims = state.lock().unwrap().tokens.get(&token).cloned();
            ready(claims.ok_or_else(HttpRefusal::unauthorized))
        }
    }

    /// Returns a function that simulates a user who grants the authorization. The function maps an authorization URL to
    /// the callback URL with an authorization code.
    #[cfg(feature = "oauth")]
    pub(super) fn page(&self) -> impl Fn(&str) -> String + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move |url| {
            let (_, asked) = url.split_once('?').unwrap();
            state.lock().unwrap().agree(&query(asked))
        }
    }

    /// Makes all issued access tokens expired.
    #[cfg(feature = "oauth")]
    pub(super) fn expire(&self) {
        self.state.lock().unwrap().expire();
    }

    /// Removes all scopes from the issued access tokens.
    #[cfg(feature = "oauth")]
    pub(super) fn narrow(&self) {
        self.state.lock().unwrap().narrow();
    }

    /// Sets the audience of all tokens that are issued from now on.
    #[cfg(feature = "oauth")]
    pub(super) fn set_audience(&self, audience: &str) {
        self.state.lock().unwrap().audience = Some(audience.to_owned());
    }
}

async fn serve(listener: TcpListener, address: String, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (address, state) = (address.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let answer = async |request: Request<Incoming>| -> Result<Answer, Infallible> {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = String::from_utf8(body.to_vec()).unwrap();
                let query = query(parts.uri.query().unwrap_or_default());
                Ok(state.lock().unwrap().answer(parts.uri.path(), &query, &body, &address))
            };
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

impl State {
    fn answer(
        &mut self,
        path: &str,
        asked: &HashMap<String, String>,
        body: &str,
        address: &str,
    ) -> Answer {
        match path {
            "/.well-known/oauth-authorization-server" => json_answer(&json!({
                "issuer": address,
                "authorization_endpoint": format!("{address}/authorize"),
                "token_endpoint": format!("{address}/token"),
                "registration_endpoint": format!("{address}/register"),
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })),
            "/register" => {
                self.log.push("register".to_owned());
                let mut client: Value = serde_json::from_str(body).unwrap();
                client["client_id"] = json!("registered");
                let mut answer = json_answer(&client);
                *answer.status_mut() = StatusCode::CREATED;
                answer
            }
            "/authorize" => {
                let location = self.agree(asked).parse().unwrap();
                let mut answer = status(StatusCode::FOUND);
                answer.headers_mut().insert(header::LOCATION, location);
                answer
            }
            "/token" => self.token(&query(body)),
            "/expire" => {
                self.expire();
                json_answer(&Value::Null)
            }
            "/narrow" => {
                self.narrow();
                json_answer(&Value::Null)
            }
            "/audience" => {
                self.audience = (!body.is_empty()).then(|| body.to_owned());
                json_answer(&Value::Null)
            }
            _ => status(StatusCode::NOT_FOUND),
        }
    }

    /// Grants the authorization request with the query parameters `asked`. Returns the redirect URI with an
    /// authorization code.
    fn agree(&mut self, asked: &HashMap<String, String>) -> String {
        assert_eq!((&*asked["response_type"], &*asked["code_challenge_method"]), ("code", "S256"));
        let grant = Grant {
            resource: asked["resource"].clone(),
            scope: asked.get("scope").cloned().unwrap_or_default(),
            challenge: asked["code_challenge"].clone(),
        };
        self.log.push(format!("page resource={} scope={}", grant.resource, grant.scope));
        let code = format!("code-{}", self.log.len());
        self.grants.insert(code.clone(), grant);
        let mut location = reqwest::Url::parse(&asked["redirect_uri"]).unwrap();
        location.query_pairs_mut().append_pair("code", &code);
        if let Some(state) = asked.get("state") {
            location.query_pairs_mut().append_pair("state", state);
        }
        location.into()
    }

    /// Issues an access token and a refresh token. `asked` contains the parameters of the token request, with an
    /// authorization code or a refresh token.
    fn token(&mut self, asked: &HashMap<String, String>) -> Answer {
        let kind = asked["grant_type"].as_str();
        self.log.push(format!("{kind} resource={}", asked["resource"]));
        let by = if kind == "refresh_token" { kind } else { "code" };
        let grant = self.grants.remove(&asked[by]).expect("a code or token that is good once");
        assert_eq!(grant.resource, asked["resource"]);
        if let Some(verifier) = asked.get("code_verifier") {
            assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)), grant.challenge);
        } else {
            assert_eq!(kind, "refresh_token");
        }
        let number = self.log.len();
        let (token, renewal) = (format!("token-{number}"), format!("renewal-{number}"));
        let claims = TokenClaims {
            identity: HttpIdentity::new("alice"),
            audience: vec![self.audience.clone().unwrap_or_else(|| grant.resource.clone())],
            expires_at: now() + 3600,
            scopes: grant.scope.split(' ').map(str::to_owned).collect(),
        };
        let answer = json_answer(&json!({
            "access_token": token,
            "token_type": "Bearer",
            // A test may let the token expire earlier than announced here. The client then learns of the expiry only
            // from a 401 response.
            "expires_in": 3600,
            "scope": grant.scope,
            "refresh_token": renewal,
        }));
        self.tokens.insert(token, claims);
        self.grants.insert(renewal, grant);
        answer
    }

    fn expire(&mut self) {
        for claims in self.tokens.values_mut() {
            claims.expires_at = now() - 3600;
        }
    }

    fn narrow(&mut self) {
        for claims in self.tokens.values_mut() {
            claims.scopes.clear();
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn json_answer(body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    answer.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    answer
}

fn status(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

/// Parses the parameters of a URL query or of a form body.
fn query(text: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://query/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}
