//! The responses that a vendor's server must send, and their meaning.

use neuron_testing::{Reply, ServerReply};
use neuron_types::{CompletionResponse, EmbeddingResponse, EmbeddingUsage, ErrorRecord};
use serde_json::{Error, Value, json};

use crate::corpus::section;
use crate::vendor::{MODEL, Vendor};

/// Number of times that a client requests the same response from each API. It requests a whole response, events, and a
/// response through its stream helper.
const WAYS: usize = 3;

/// The replies of one server, and the meaning that a client must find in them.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) replies: Vec<ServerReply>,
    pub(crate) means: Value,
}

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
    // Errors in place of a response, one for a whole response and one for a stream.
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
        cases.push(embeddings(vendor.embeddings));
    }
    // Requests that the client chooses. Some are valid, and the server must reject the others itself.
    cases.push(Case {
        name: "what is right is taken".into(),
        replies: vec!["ok"; vendor.own_requests].into_iter().map(Into::into).collect(),
        means: json!({"text": "ok"}),
    });
    cases.push(Case {
        name: "what is wrong is refused".into(),
        replies: Vec::new(),
        means: json!({}),
    });
    Ok(cases)
}

/// Returns a stream that breaks after some of a text.
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

/// Returns two vectors, which are requested this many times.
fn embeddings(times: usize) -> Case {
    let response = embedding();
    Case {
        name: "two vectors".into(),
        replies: vec![response.clone(); times].into_iter().map(Into::into).collect(),
        means: json!({
            "input": ["one", "two"],
            "embeddings": response.embeddings,
            "prompt_tokens": response.usage.prompt_tokens,
        }),
    }
}

/// Returns two vectors whose numbers are exact in both four and eight bytes.
pub(crate) fn embedding() -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings: vec![vec![1.0, -0.5, 0.0], vec![0.25, 3.0, -2048.0]],
        model: MODEL.into(),
        usage: EmbeddingUsage { prompt_tokens: 6, total_tokens: 6 },
    }
}
