//! Sends the requests of two providers with one HTTP client that has its own proxy, certificate, headers and timeouts.

use std::error::Error;
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Proxy};

// ANCHOR: client
/// Creates the HTTP client. The variables `COMPANY_PROXY` and `COMPANY_CA` are names of this program.
fn http_client() -> Result<Client, Box<dyn Error>> {
    // reqwest needs a cryptography library of rustls. An error means that the program has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut builder = Client::builder()
        // A redirect may send the key to another server.
        .redirect(Policy::none())
        // Replaces the provider's timeout for opening a connection.
        .connect_timeout(Duration::from_secs(5))
        // Sent with each request, for example for a gateway.
        .default_headers(HeaderMap::from_iter([(
            "x-team".parse()?,
            HeaderValue::from_static("search"),
        )]));
    if let Ok(url) = std::env::var("COMPANY_PROXY") {
        // With the URL http://user:password@proxy.example:3128, the proxy receives the credentials.
        builder = builder.proxy(Proxy::all(url)?);
    }
    if let Ok(path) = std::env::var("COMPANY_CA") {
        // Trusted in addition to the certificates of the operating system.
        let certificates = Certificate::from_pem_bundle(&std::fs::read(path)?)?;
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder.build()?)
}
// ANCHOR_END: client

// ANCHOR: providers
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // Clones share the connections.
    let client = http_client()?;
    let anthropic = Anthropic::from_env()?
        .http_client(client.clone())
        // The whole response, or the beginning of a stream.
        .timeout(Duration::from_secs(120))
        // The wait between two chunks of a stream.
        .idle_timeout(Duration::from_secs(60));
    let openai = OpenAi::from_env()?.http_client(client);

    let agent = Agent::builder(anthropic).build();
    let result = agent.run(&mut Conversation::new(), "Say hello.").await?;
    println!("Anthropic: {}", result.response);

    let agent = Agent::builder(openai).build();
    let result = agent.run(&mut Conversation::new(), "Say hello.").await?;
    println!("OpenAI: {}", result.response);
    Ok(())
}
// ANCHOR_END: providers
