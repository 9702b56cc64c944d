//! A protected MCP server and its authorization server, at one address.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Deviations of the MCP server and its authorization server from normal behaviour. The default has none.
#[derive(Clone, Default)]
pub(crate) struct Behaviour {
    /// Value of `expires_in` in token responses, in seconds. `None` omits it. The server does not enforce the lifetime.
    pub(crate) expires_in: Option<u64>,
    /// Set to refuse every client registration.
    pub(crate) refuses_clients: bool,
    /// Set to refuse every tool call for a missing scope, even if the token has the scope.
    pub(crate) wants_ever_more: bool,
    /// Set to refuse every token, including tokens that were just issued.
    pub(crate) refuses_tokens: bool,
    /// Set to refuse every renewal of an access token by a refresh token.
    pub(crate) refuses_renewal: bool,
    /// Set to send 401 responses without the header `WWW-Authenticate`.
    pub(crate) hides_challenge: bool,
    /// Issuer in the metadata of the authorization server. `None` for the correct issuer.
    pub(crate) issuer: Option<String>,
    /// URL of the authorization page in the metadata. `None` for the correct URL.
    pub(crate) page: Option<&'static str>,
    /// Set to omit the methods of PKCE from the metadata.
    pub(crate) hides_pkce: bool,
    /// Value of `token_type` in token responses. `None` for `Bearer`.
    pub(crate) token_type: Option<&'static str>,
    /// Set to refuse every token request with a long text that repeats the request.
    pub(crate) repeats_requests: bool,
}

/// Signals of a token renewal whose response is delayed until the test releases it.
#[derive(Clone, Default)]
pub(crate) struct Held {
    /// Notified after the token has been renewed, before the response is sent.
    pub(crate) began: Arc<Notify>,
    /// Notified by the test to let the server send the response.
    pub(crate) release: Arc<Notify>,
}

/// A running MCP server and its authorization server. Both stop when this value is dropped.
pub(crate) struct Servers {
    address: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    /// Log lines of requests that concern authorization, in order.
    log: Vec<String>,
    /// Valid access tokens, with their scopes separated by spaces.
    tokens: HashMap<String, String>,
    /// Issued authorization codes that are not exchanged yet, with the requested scopes.
    codes: HashMap<String, String>,
    /// Valid refresh tokens, with the granted scopes. Each can be used once.
    renewals: HashMap<String, String>,
    /// Delay for the next token renewal, if any.
    held: Option<Held>,
    /// Number of issued access tokens.
    issued: u32,
}

impl Servers {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { behaviour, ..State::default() }));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, address.clone(), Arc::clone(&state)));
        Self { address, state, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.address)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the log lines of requests that concern authorization, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    /// Returns the number of log lines that start with `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.log().iter().filter(|line| line.starts_with(prefix)).count()
    }

    /// Invalidates all access tokens. Refresh tokens stay valid.
    pub(crate) fn revoke_tokens(&self) {
        self.state.lock().unwrap().tokens.clear();
    }

    /// Delays the response to the next token renewal until the returned handle releases it.
    pub(crate) fn hold_renewal(&self) -> Held {
        let held = Held::default();
        self.state.lock().unwrap().held = Some(held.clone());
        held
    }

    /// Changes the behaviour of the servers.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state.lock().unwrap().behaviour);
    }

    /// Returns a function that simulates a user who grants access. It takes an authorization URL and returns the
    /// callback URL with an authorization code.
    pub(crate) fn page(&self) -> impl Fn(&str) -> String + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move |url| agree(&state, url)
    }
}

/// Issues an authorization code for an authorization URL. Returns the callback URL with the code.
fn agree(state: &Mutex<State>, authorization_url: &str) -> String {
    let asked = query(authorization_url.split_once('?').unwrap().1);
    assert_eq!(asked["response_type"], "code");
    assert_eq!(asked["code_challenge_method"], "S256");
    let mut state = state.lock().unwrap();
    let scope = asked.get("scope").cloned().unwrap_or_default();
    state.log.push(format!("page client={} scope={scope}", asked["client_id"]));
    let code = format!("secret-code-{}", state.codes.len());
    state.codes.insert(code.clone(), scope);
    format!("{}?code={code}&state={}", asked["redirect_uri"], asked["state"])
}

async fn serve(listener: TcpListener, address: String, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (address, state) = (address.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, &address, &state));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(
    request: Request<Incoming>,
    address: &str,
    state: &Mutex<State>,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let token = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .map(str::to_owned);
    let (answer, held) = {
        let mut state = state.lock().unwrap();
        let answer = state.answer(&parts, token, &body, address);
        let is_renewal = body.starts_with(b"grant_type=refresh_token");
        (answer, if is_renewal { state.held.take() } else { None })
    };
    if let Some(held) = held {
        held.began.notify_one();
        held.release.notified().await;
    }
    Ok(answer)
}

impl State {
    fn answer(
        &mut self,
        parts: &Parts,
        token: Option<String>,
        body: &[u8],
        address: &str,
    ) -> Answer {
        match (parts.method.clone(), parts.uri.path()) {
            (Method::POST, "/mcp") => self.mcp(token, body, address),
            (_, "/mcp") => status(StatusCode::METHOD_NOT_ALLOWED),
            (_, "/.well-known/oauth-protected-resource/mcp") => ok(&json!({
                "resource": format!("{address}/mcp"),
                "authorization_servers": [address],
                "scopes_supported": ["read"],
            })),
            (_, "/.well-known/oauth-authorization-server") => ok(&self.metadata(address)),
            (Method::POST, "/register") => self.register(body),
            (Method::POST, "/token") => self.token(&query(std::str::from_utf8(body).unwrap())),
            _ => status(StatusCode::NOT_FOUND),
        }
    }

    /// Returns the metadata of the authorization server.
    fn metadata(&self, address: &str) -> Value {
        let Behaviour { issuer, page, hides_pkce, .. } = &self.behaviour;
        let page = page.map_or_else(|| format!("{address}/authorize"), str::to_owned);
        let mut metadata = json!({
            "issuer": issuer.clone().unwrap_or_else(|| address.to_owned()),
            "authorization_endpoint": page,
            "token_endpoint": format!("{address}/token"),
            "registration_endpoint": format!("{address}/register"),
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
        });
        if !hides_pkce {
            metadata["code_challenge_methods_supported"] = json!(["S256"]);
        }
        metadata
    }

    /// Responds to a POST to the MCP endpoint.
    fn mcp(&mut self, token: Option<String>, body: &[u8], address: &str) -> Answer {
        let message: Value = serde_json::from_slice(body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let scopes = token.as_ref().and_then(|token| self.tokens.get(token));
        let Some(scopes) = scopes.filter(|_| !self.behaviour.refuses_tokens) else {
            self.log.push(format!("401 {method}"));
            let mut answer = status(StatusCode::UNAUTHORIZED);
            if !self.behaviour.hides_challenge {
                challenge(&mut answer, address, "");
            }
            return answer;
        };
        let may_call = scopes.split(' ').any(|scope| scope == "write");
        if method == "tools/call" && (!may_call || self.behaviour.wants_ever_more) {
            self.log.push(format!("403 {method}"));
            let mut answer = status(StatusCode::FORBIDDEN);
            challenge(&mut answer, address, r#", error="insufficient_scope", scope="write""#);
            return answer;
        }
        let Some(id) = message.get("id") else { return status(StatusCode::ACCEPTED) };
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "serverInfo": {"name": "locked", "version": "1"},
                "capabilities": {"tools": {}},
            }),
            "tools/list" => json!({"tools": [
                {"name": "write", "inputSchema": {"type": "object"}},
            ]}),
            _ => json!({"content": [{"type": "text", "text": "written"}]}),
        };
        ok(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Responds to a client registration.
    fn register(&mut self, body: &[u8]) -> Answer {
        let asked: Value = serde_json::from_slice(body).unwrap();
        self.log.push(format!("register {} {}", asked["client_name"], asked["application_type"]));
        if self.behaviour.refuses_clients {
            return status(StatusCode::FORBIDDEN);
        }
        ok(&json!({
            "client_id": "registered",
            "client_secret": "secret-of-client",
            "redirect_uris": asked["redirect_uris"],
        }))
    }

    /// Responds to a token request with a code, a refresh token, or client credentials.
    fn token(&mut self, asked: &HashMap<String, String>) -> Answer {
        if self.behaviour.repeats_requests {
            let text = format!("{asked:?} is wrong {}", "x".repeat(10_000));
            let mut answer = ok(&json!({"error": "invalid_request", "error_description": text}));
            *answer.status_mut() = StatusCode::BAD_REQUEST;
            return answer;
        }
        let grant = asked["grant_type"].clone();
        let client = asked.get("client_id").cloned().unwrap_or_default();
        let scope = match grant.as_str() {
            "authorization_code" => {
                assert!(asked.contains_key("code_verifier"));
                self.codes.remove(&asked["code"]).unwrap()
            }
            "refresh_token" => {
                let granted = self.renewals.remove(&asked["refresh_token"]);
                let Some(granted) = granted.filter(|_| !self.behaviour.refuses_renewal) else {
                    self.log.push("token refused".to_owned());
                    let mut answer = ok(&json!({"error": "invalid_grant"}));
                    *answer.status_mut() = StatusCode::BAD_REQUEST;
                    return answer;
                };
                // A request without a scope keeps the granted scopes (RFC 6749, 6).
                asked.get("scope").cloned().unwrap_or(granted)
            }
            _ => asked.get("scope").cloned().unwrap_or_default(),
        };
        let secret = asked.get("client_secret").cloned().unwrap_or_default();
        self.log.push(format!("token {grant} client={client} secret={secret} scope={scope}"));
        self.issued += 1;
        let token = format!("secret-token-{}", self.issued);
        self.tokens.insert(token.clone(), scope.clone());
        let renewal = format!("secret-renewal-{}", self.issued);
        self.renewals.insert(renewal.clone(), scope.clone());
        let mut answer = json!({
            "access_token": token,
            "token_type": self.behaviour.token_type.unwrap_or("Bearer"),
            "scope": scope,
            "refresh_token": renewal,
        });
        if let Some(seconds) = self.behaviour.expires_in {
            answer["expires_in"] = json!(seconds);
        }
        ok(&answer)
    }
}

/// Adds the header `WWW-Authenticate` with the URL of the resource metadata and further parameters.
fn challenge(answer: &mut Answer, address: &str, more: &str) {
    let metadata = format!("{address}/.well-known/oauth-protected-resource/mcp");
    let value = format!(r#"Bearer resource_metadata="{metadata}"{more}"#);
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, value.parse().unwrap());
}

fn ok(body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    answer.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    answer
}

fn status(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

/// Parses a URL query or a form body.
fn query(text: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://query/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}
