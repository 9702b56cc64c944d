//! The command `requests`, which writes the requests of our provider as a loopback server receives them.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use neuron_testing::RecordedRequest;
use neuron_types::{
    BoxError, BoxedEmbeddingProvider, EmbeddingError, EmbeddingProvider, EmbeddingRequest,
    Provider, ProviderError, RequestRef,
};
use serde_json::{Map, Value, json};

use crate::cases::embedding;
use crate::corpus;
use crate::vendor::{Form, Vendor};

/// Headers that would contain a real key.
const KEYS: [&str; 2] = ["x-api-key", "authorization"];

/// Writes the sent requests. Returns an error if our own server reports a problem, or if the list of rejected requests
/// is wrong.
pub(crate) fn run(vendor: &Vendor, file: &Path) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut file = BufWriter::new(File::create(file)?);
    let mut objections = Vec::new();
    let mut write = |form: &str, name: &str, stream, outcome: Outcome, must_be_refused| {
        if let Some(reason) = objection(&outcome, must_be_refused) {
            objections.push(format!("{form}: {name} (stream: {stream}): {reason}"));
        }
        match outcome.sent {
            Some(sent) => writeln!(file, "{}", line(form, name, stream, sent)),
            None => Ok(()),
        }
    };
    let requests = corpus::requests(vendor)?;
    for form in vendor.forms {
        for (name, request) in &requests {
            for stream in [false, true] {
                let outcome = runtime.block_on(send(vendor, form, request.view(), stream))?;
                write(form.name, name, stream, outcome, form.refused.contains(&name.as_str()))?;
            }
        }
    }
    if let Some(embedder) = vendor.embedder {
        for (name, request) in corpus::embedding_requests(vendor)? {
            let outcome = runtime.block_on(embed(vendor, embedder, request))?;
            write("embeddings", &name, false, outcome, false)?;
        }
    }
    file.flush()?;
    if objections.is_empty() { Ok(()) } else { Err(objections.join("\n").into()) }
}

/// The outcome of a request.
struct Outcome {
    /// `None` if the provider did not send the request.
    sent: Option<RecordedRequest>,
    error: Option<BoxError>,
    /// Set if the error means that the request cannot be expressed.
    is_refusal: bool,
}

/// Sends a request to a separate server.
async fn send(
    vendor: &Vendor,
    form: &Form,
    request: RequestRef<'_>,
    stream: bool,
) -> io::Result<Outcome> {
    let server = (vendor.start)(vec!["ok".into()]).await?;
    let provider = (form.provider)(&server.url());
    let answer = if stream {
        match provider.complete_stream_ref(request).await {
            Ok(handle) => handle.into_response().await,
            Err(error) => Err(error),
        }
    } else {
        provider.complete_ref(request).await
    };
    let error = answer.err();
    let is_refusal = matches!(error, Some(ProviderError::InvalidRequest(_)));
    Ok(Outcome {
        sent: server.requests().into_iter().next(),
        error: error.map(Into::into),
        is_refusal,
    })
}

/// Sends a request for embeddings to a separate server.
async fn embed(
    vendor: &Vendor,
    embedder: fn(&str) -> BoxedEmbeddingProvider,
    request: EmbeddingRequest,
) -> io::Result<Outcome> {
    let mut answer = embedding();
    answer.embeddings.truncate(request.input.len());
    let server = (vendor.start)(vec![answer.into()]).await?;
    let error = embedder(&server.url()).embed(request).await.err();
    let is_refusal = matches!(error, Some(EmbeddingError::InvalidRequest(_)));
    Ok(Outcome {
        sent: server.requests().into_iter().next(),
        error: error.map(Into::into),
        is_refusal,
    })
}

/// Returns the problem of an outcome, if there is one. Our server and our provider must agree before a client checks
/// the request.
fn objection(outcome: &Outcome, must_be_refused: bool) -> Option<String> {
    match (outcome, must_be_refused) {
        (Outcome { sent: Some(_), error: None, .. }, false) => None,
        (Outcome { sent: None, is_refusal: true, .. }, true) => None,
        (Outcome { sent: Some(_), .. }, true) => Some("was sent: take it off the list".to_owned()),
        (Outcome { error: Some(error), .. }, _) => Some(error.to_string()),
        (Outcome { sent: None, error: None, .. }, _) => Some("an answer to no request".to_owned()),
    }
}

fn line(form: &str, name: &str, stream: bool, sent: RecordedRequest) -> Value {
    let headers = sent.headers.into_iter().filter(|(name, _)| !KEYS.contains(&name.as_str()));
    json!({
        "form": form,
        "request": name,
        "stream": stream,
        "path": sent.path,
        "headers": headers.map(|(name, value)| (name, value.into())).collect::<Map<_, _>>(),
        "body": sent.json,
    })
}
