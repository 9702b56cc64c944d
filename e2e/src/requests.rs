//! The command `requests`, which writes the requests of our provider to a file, as a loopback server received them.

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
use crate::patterns;
use crate::vendor::{Form, Vendor};

/// Headers that contain the API key. They are not written.
const KEYS: [&str; 3] = ["x-api-key", "x-goog-api-key", "authorization"];

/// Sends all requests of the corpus with the vendor's provider, and writes one line of JSON for each sent request.
///
/// # Errors
///
/// Returns an error if our server rejects a request, if a request breaks a [pattern](patterns) of the vendor, or if
/// [`Form::refused`] does not list exactly the requests that the provider rejects.
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

/// The outcome of one request of the corpus.
struct Outcome {
    /// The request as the server received it. `None` if the provider did not send a request.
    sent: Option<RecordedRequest>,
    /// Error that the provider returned.
    error: Option<BoxError>,
    /// Set if the provider returned an error because the vendor's format cannot express the request.
    is_refusal: bool,
}

/// Sends a request to a new server. `stream` requests the response as a stream.
async fn send(
    vendor: &Vendor,
    form: &Form,
    request: RequestRef<'_>,
    stream: bool,
) -> io::Result<Outcome> {
    // Each request gets its own server, so the first recorded request is the sent request.
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

/// Sends an embedding request to a new server.
async fn embed(
    vendor: &Vendor,
    embedder: fn(&str) -> BoxedEmbeddingProvider,
    request: EmbeddingRequest,
) -> io::Result<Outcome> {
    let mut answer = embedding();
    // The number of vectors must match the number of texts, or the provider returns an error.
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

/// Returns the reason why an outcome is a failure. Returns `None` if the outcome is as expected.
///
/// `must_be_refused` is set if the provider must reject the request without sending it.
fn objection(outcome: &Outcome, must_be_refused: bool) -> Option<String> {
    match (outcome, must_be_refused) {
        (Outcome { sent: Some(sent), error: None, .. }, false) => {
            patterns::check(&sent.path, sent.json.as_ref().unwrap_or(&Value::Null)).err()
        }
        (Outcome { sent: None, is_refusal: true, .. }, true) => None,
        (Outcome { sent: Some(_), .. }, true) => {
            Some("was sent: remove it from `Form::refused`".to_owned())
        }
        (Outcome { error: Some(error), .. }, _) => Some(error.to_string()),
        (Outcome { sent: None, error: None, .. }, _) => {
            Some("a response without a request".to_owned())
        }
    }
}

/// Returns the line of JSON for a sent request.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::VENDORS;

    #[test]
    fn requests_are_accepted_and_keep_the_patterns() {
        for vendor in &VENDORS {
            let name = format!("neuron-e2e-{}-{}.jsonl", vendor.name, std::process::id());
            let file = std::env::temp_dir().join(name);
            let outcome = run(vendor, &file);
            std::fs::remove_file(file).unwrap();
            if let Err(objections) = outcome {
                panic!("{}: {objections}", vendor.name);
            }
        }
    }
}
