//! The command `requests`: what our provider really sends, as a loopback server receives it.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use neuron_types::{CompletionRequest, Provider, ProviderError};
use serde_json::{Map, Value, json};

use crate::corpus::corpus;
use crate::vendor::{Form, Server, Vendor};

/// Headers that would be a key's, were it real.
const KEYS: [&str; 2] = ["x-api-key", "authorization"];

/// Writes what is sent; then fails if our own server, or the list of what is not sent, objects.
pub(crate) fn run(vendor: Vendor, file: &Path) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let requests: Vec<_> = corpus().into_iter().chain(vendor.own_requests()).collect();
    let mut file = BufWriter::new(File::create(file)?);
    let mut objections = Vec::new();
    for form in vendor.forms() {
        for (name, request) in &requests {
            for stream in [false, true] {
                let outcome = runtime.block_on(send(vendor, form, request, stream))?;
                if let Some(reason) = objection(&outcome, form.refused.contains(name)) {
                    let form = form.name;
                    objections.push(format!("{form}: {name} (stream: {stream}): {reason}"));
                }
                if let Some(sent) = outcome.sent {
                    writeln!(file, "{}", line(form, name, stream, sent))?;
                }
            }
        }
    }
    file.flush()?;
    if objections.is_empty() { Ok(()) } else { Err(objections.join("\n").into()) }
}

/// What became of a request.
struct Outcome {
    /// None if the provider did not send it.
    sent: Option<Sent>,
    error: Option<ProviderError>,
}

/// Sends a request to a server of its own.
async fn send(
    vendor: Vendor,
    form: &Form,
    request: &CompletionRequest,
    stream: bool,
) -> io::Result<Outcome> {
    let server = vendor.start(vec!["ok".into()]).await?;
    let provider = (form.provider)(&server.url());
    let answer = if stream {
        match provider.complete_stream_ref(request).await {
            Ok(handle) => handle.into_response().await,
            Err(error) => Err(error),
        }
    } else {
        provider.complete_ref(request).await
    };
    Ok(Outcome { sent: sent(server.as_ref()), error: answer.err() })
}

/// What is wrong with an outcome: our server and our provider must agree before others are asked.
fn objection(outcome: &Outcome, must_be_refused: bool) -> Option<String> {
    match (outcome, must_be_refused) {
        (Outcome { sent: Some(_), error: None }, false) => None,
        (Outcome { sent: None, error: Some(ProviderError::InvalidRequest(_)) }, true) => None,
        (Outcome { sent: Some(_), .. }, true) => Some("was sent: take it off the list".to_owned()),
        (Outcome { error: Some(error), .. }, _) => Some(error.to_string()),
        (Outcome { sent: None, error: None }, _) => Some("an answer to no request".to_owned()),
    }
}

struct Sent {
    path: String,
    headers: Map<String, Value>,
    body: Value,
}

fn sent(server: &dyn Server) -> Option<Sent> {
    let request = server.requests().into_iter().next()?;
    let headers = request.headers.into_iter().filter(|(name, _)| !KEYS.contains(&name.as_str()));
    Some(Sent {
        path: request.path,
        headers: headers.map(|(name, value)| (name, value.into())).collect(),
        body: request.json.unwrap_or_default(),
    })
}

fn line(form: &Form, name: &str, stream: bool, sent: Sent) -> Value {
    let Sent { path, headers, body } = sent;
    json!({
        "form": form.name,
        "request": name,
        "stream": stream,
        "path": path,
        "headers": headers,
        "body": body,
    })
}
