//! [`cases`], the responses that a vendor's loopback server must send, with the meaning that a client must find in
//! them.

use neuron_testing::{Reply, ServerReply};
use neuron_types::{CompletionResponse, EmbeddingResponse, EmbeddingUsage, ErrorRecord};
use serde_json::{Error, Value, json};

use crate::corpus::section;
use crate::vendor::{MODEL, Vendor};

/// Number of times that a client requests the same response from each API. A client requests it as one JSON body, as
/// events, and with the client's helper for streams.
const WAYS: usize = 3;

/// The replies of one loopback server, and the meaning that a client must find in them.
pub(crate) struct Case {
    /// Name by which the Python code selects the case.
    pub(crate) name: String,
    /// Replies of the server, in the order of the client's requests.
    pub(crate) replies: Vec<ServerReply>,
    /// Expected meaning of the replies as JSON, which the Python code compares with the client's result.
    pub(crate) means: Value,
}

/// Returns all cases of a vendor. Returns an error if the corpus is not valid JSON or has an unknown format.
pub(crate) fn cases(vendor: &Vendor) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for (name, mut value) in section(vendor, "answers")? {
        value["message"] = json!({"role": "assistant", "content": value["content"].take()});
        let apis: Vec<Value> = match value["apis"].take() {
            Value::Array(apis) => apis,
            _ => vendor.forms.iter().map(|form| form.name.into()).collect(),
        };
        let beta = value["beta"] == true;
        let response: CompletionResponse = serde_json::from_value(value)?;
        let reply = || Reply::from(response.clone()).chunk_chars(5).into();
        let replies = std::iter::repeat_with(reply).take(WAYS * apis.len()).collect();
        let means = json!({"answer": response, "apis": apis, "beta": beta});
        cases.push(Case { name, replies, means });
    }
    // Two errors per case. The client receives one for a whole response, and one for a stream.
    for (name, record) in section(vendor, "refusals")? {
        let error = serde_json::from_value::<ErrorRecord>(record)?.into_provider_error();
        let means = json!({
            "failure": error.kind(),
            "text": error.to_string(),
            "retry_after": error.retry_after().map(|delay| delay.as_secs()),
        });
        let again = ErrorRecord::from(&error).into_provider_error();
        let replies = vec![Reply::error(error).into(), Reply::error(again).into()];
        cases.push(Case { name, replies, means });
    }
    for form in vendor.forms {
        for (name, record) in section(vendor, "breaks")? {
            cases.push(broken(form.name, &name, serde_json::from_value(record)?));
        }
    }
    if vendor.embedder.is_some() {
        cases.push(embeddings("one vector", 1, vendor.embeddings));
        cases.push(embeddings("two vectors", 2, vendor.embeddings));
    }
    // The Python code creates the requests of these two cases. The server has no replies for invalid requests, so it
    // must reject them itself.
    cases.push(Case {
        name: "valid requests are accepted".into(),
        replies: vec!["ok"; vendor.own_requests].into_iter().map(Into::into).collect(),
        means: json!({"text": "ok"}),
    });
    cases.push(Case {
        name: "invalid requests are rejected".into(),
        replies: Vec::new(),
        means: json!({}),
    });
    Ok(cases)
}

/// Returns a case whose stream fails with this error after six events of a text response.
fn broken(api: &str, name: &str, record: ErrorRecord) -> Case {
    const TEXT: &str = "This will never be read to its end.";
    let error = record.into_provider_error();
    let (kind, text) = (error.kind(), error.to_string());
    Case {
        name: format!("{api}: {name}"),
        replies: vec![Reply::text(TEXT).chunk_chars(4).fail_after(6, error).into()],
        means: json!({"break": kind, "text": text, "of": TEXT, "api": api}),
    }
}

/// Returns a case with up to two embedding vectors. The client requests the same vectors `times` times.
fn embeddings(name: &str, count: usize, times: usize) -> Case {
    let mut response = embedding();
    response.embeddings.truncate(count);
    let texts: Vec<_> = ["one", "two"].into_iter().take(count).collect();
    Case {
        name: name.into(),
        replies: vec![response.clone(); times].into_iter().map(Into::into).collect(),
        means: json!({
            "input": texts,
            "embeddings": response.embeddings,
            "prompt_tokens": response.usage.prompt_tokens,
        }),
    }
}

/// Returns a response with two vectors. The numbers are exact both as 4-byte and as 8-byte floats, because the vendors
/// send either.
pub(crate) fn embedding() -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings: vec![vec![1.0, -0.5, 0.0], vec![0.25, 3.0, -2048.0]],
        model: MODEL.into(),
        usage: EmbeddingUsage { prompt_tokens: 6, total_tokens: 6 },
    }
}
