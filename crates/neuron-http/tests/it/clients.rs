//! Tests of HTTP clients that the caller provides, for example behind a corporate proxy.

use std::sync::{Arc, Once};

use futures_util::future::join;
use neuron_http::{Endpoint, Rejection, Secret};
use neuron_model::ProviderError;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Certificate of a private certificate authority. [`SERVER`] and [`CLIENT`] contain a certificate that it signed, with
/// the private key.
const AUTHORITY: &[u8] = include_bytes!("tls/ca.pem");
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const CLIENT: &[u8] = include_bytes!("tls/client.pem");

fn builder() -> ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        rustls::crypto::ring::default_provider().install_default().expect("the first provider");
    });
    Client::builder().redirect(Policy::none())
}

async fn call(url: &str, client: Option<Client>) -> Result<Vec<u8>, ProviderError> {
    let endpoint = Endpoint::new("http://never.invalid", Secret::default());
    let endpoint = match client {
        // The client must survive a change of the URL or of a timeout.
        Some(client) => endpoint.with_client(client),
        None => endpoint,
    };
    let limit = std::time::Duration::from_secs(20);
    let endpoint = endpoint.with_base_url(url).with_connect_timeout(limit);
    let reject = |rejection: &Rejection| rejection.classify("refused".into());
    endpoint.post("v1/chat", Default::default(), b"{}".to_vec(), reject).await?.read().await
}

/// Reads a request head up to its empty line. Returns it in lower case.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a whole head"));
    }
    String::from_utf8(head).expect("text").to_lowercase()
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin)) {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(answer).await.expect("a client that reads");
    stream.flush().await.expect("a client that reads");
}

#[tokio::test]
async fn caller_client_sends_request_to_proxy_with_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = format!("http://me:hunter2@{}", listener.local_addr().expect("an address"));
    let client = builder().proxy(Proxy::all(proxy).expect("a proxy")).build().expect("a client");
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let head = head(&mut stream).await;
        answer(&mut stream).await;
        head
    };
    let (result, head) = join(call("http://api.invalid", Some(client)), serve).await;
    assert_eq!(result.expect("an answer"), b"{}");
    assert!(head.starts_with("post http://api.invalid/v1/chat http/1.1\r\n"), "{head}");
    // `me:hunter2` in base64, converted to lower case.
    assert!(head.contains("proxy-authorization: basic bwu6ahvudgvymg==\r\n"), "{head}");
}

#[tokio::test]
async fn caller_client_tunnels_https_with_proxy_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = format!("http://me:hunter2@{}", listener.local_addr().expect("an address"));
    let client = builder().proxy(Proxy::all(proxy).expect("a proxy")).build().expect("a client");
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let head = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n").await.expect("a client");
        head
    };
    let (result, head) = join(call("https://api.invalid", Some(client)), serve).await;
    let error = result.expect_err("no tunnel");
    assert_eq!(error.kind(), "Network");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(head.starts_with("connect api.invalid:443 http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic bwu6ahvudgvymg==\r\n"), "{head}");
}

/// Serves one TLS connection. The server requires a client certificate that the company's authority has signed.
async fn serve_tls(listener: TcpListener) -> std::io::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let chain = CertificateDer::pem_slice_iter(SERVER).collect::<Result<_, _>>().expect("PEM");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(clients.build().expect("a verifier"))
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(SERVER).expect("PEM"))
        .expect("a certificate and its key");
    let (stream, _) = listener.accept().await?;
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    head(&mut stream).await;
    let mut body = [0; 2];
    stream.read_exact(&mut body).await?;
    answer(&mut stream).await;
    Ok(())
}

#[tokio::test]
async fn caller_client_uses_private_authority_and_client_certificate() {
    let authority = || Certificate::from_pem(AUTHORITY).expect("PEM");
    let identity = Identity::from_pem(CLIENT).expect("PEM");
    let trusting = || builder().no_proxy().tls_certs_merge([authority()]);
    let clients = [
        (trusting().identity(identity).build().ok(), true),
        // A client without a certificate is rejected by the server.
        (trusting().build().ok(), false),
        // The endpoint's own client trusts only the authorities of the operating system.
        (None, false),
    ];
    for (client, succeeds) in clients {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let (result, served) = join(call(&url, client), serve_tls(listener)).await;
        assert_eq!((result.is_ok(), served.is_ok()), (succeeds, succeeds), "{result:?}");
    }
}
