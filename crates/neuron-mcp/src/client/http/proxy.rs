//! Names the proxy in connection errors.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use tower::{Layer, Service};

type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that adds the proxy's name to the errors of a connector.
#[derive(Clone)]
pub(super) struct NameProxy {
    /// The host and the port, without credentials.
    proxy: String,
}

impl NameProxy {
    /// Returns a layer for the proxy that the environment sets for a URL. `None` if it sets no proxy.
    pub(super) fn of_environment(url: &Url) -> Option<Self> {
        let proxy = Matcher::from_env().intercept(&url.as_str().parse().ok()?)?;
        let (host, port) = (proxy.uri().host()?, proxy.uri().port());
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Some(Self { proxy: format!("{host}{port}") })
    }
}

impl<S> Layer<S> for NameProxy {
    type Service = Named<S>;

    fn layer(&self, connector: S) -> Named<S> {
        Named { connector, proxy: self.proxy.clone() }
    }
}

#[derive(Clone)]
pub(super) struct Named<S> {
    connector: S,
    proxy: String,
}

impl<S, R> Service<R> for Named<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let proxy = self.proxy.clone();
        let connecting = self.connector.call(target);
        Box::pin(async move {
            connecting.await.map_err(|source| ProxyError { proxy, source: source.into() }.into())
        })
    }
}

#[derive(Debug)]
struct ProxyError {
    proxy: String,
    source: BoxError,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "through the proxy {}", self.proxy)
    }
}

impl Error for ProxyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
