//! The command `requests`: what our provider really sends, as a loopback server receives it.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use neuron_types::{CompletionRequest, Provider, ProviderError};
use serde_json::{Map, Value, json};

use crate::corpus::corpus;
use crate::vendor::{Form, Server, Vendor};

/// Headers that would be a key's, were it real.
const KEYS: [&str; 2] = ["x-api-key", "authorization"];

pub(crate) fn run(vendor: Vendor, file: &Path) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut file = BufWriter::new(File::create(file)?);
    for line in runtime.block_on(lines(vendor))? {
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}

async fn lines(vendor: Vendor) -> Result<Vec<Value>, Box<dyn Error>> {
    let requests: Vec<_> = corpus().into_iter().chain(vendor.own_requests()).collect();
    let mut lines = Vec::new();
    for form in vendor.forms() {
        for (name, request) in &requests {
            for stream in [false, true] {
                let sent = send(vendor, form, request, stream).await;
                let sent = sent.map_err(|reason| {
                    format!("{} `{name}` (stream: {stream}): {reason}", form.name)
                })?;
                match (sent, form.refused.contains(name)) {
                    (Some(sent), false) => {
                        lines.push(line(form, name, stream, sent));
                    }
                    (None, true) => {}
                    (Some(_), true) => {
                        let form = form.name;
                        return Err(
                            format!("{form} `{name}` was sent: take it off the list").into()
                        );
                    }
                    (None, false) => {
                        let form = form.name;
                        return Err(format!("{form} `{name}` was not sent").into());
                    }
                }
            }
        }
    }
    Ok(lines)
}

/// Sends a request to a server of its own; `None` if the provider refuses to.
///
/// What our server refuses is an error here: the two must agree before others are asked.
async fn send(
    vendor: Vendor,
    form: &Form,
    request: &CompletionRequest,
    stream: bool,
) -> Result<Option<Sent>, Box<dyn Error>> {
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
    match (answer, sent(server.as_ref())) {
        (Ok(_), Some(sent)) => Ok(Some(sent)),
        (Err(ProviderError::InvalidRequest(_)), None) => Ok(None),
        (Err(error), _) => Err(error.into()),
        (Ok(_), None) => Err("an answer to no request".into()),
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
