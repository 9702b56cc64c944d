//! What is Ollama's alone: the answers and requests that no other vendor has.

use neuron_provider_ollama::Ollama;
use neuron_testing::Reply;
use neuron_types::{
    BoxedEmbeddingProvider, BoxedProvider, CompletionRequest, CompletionResponse, ContentBlock,
    Message, Role, StopReason,
};
use serde_json::json;

use crate::answers::{answer, answers, embeddings};
use crate::corpus::{ask, request};
use crate::failures;
use crate::serve::Case;
use crate::vendor::{Form, MODEL};

pub(crate) const FORMS: &[Form] = &[Form {
    name: "native chat",
    provider: |url| BoxedProvider::new(Ollama::new().base_url(url).model(MODEL)),
    refused: &[
        "some tool",
        "this tool",
        "an image at an address",
        "a document",
        "a document at an address",
    ],
}];

pub(crate) fn embedder(url: &str) -> BoxedEmbeddingProvider {
    BoxedEmbeddingProvider::new(Ollama::new().base_url(url))
}

/// How often a client asks for the same answer: whole, as lines, and through its stream.
const WAYS: usize = 3;

/// How many requests the client thinks of by itself.
const OWN_REQUESTS: usize = 8;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, response) in answers().into_iter().chain(own_answers()) {
        let replies = (0..WAYS).map(|_| Reply::from(response.clone()).chunk_chars(5).into());
        cases.push(Case {
            name: name.into(),
            replies: replies.collect(),
            means: json!({"answer": response}),
        });
    }
    cases.extend(failures::refusals());
    cases.extend(failures::breaks());
    // As they come, and through the client.
    cases.push(embeddings(2));
    cases.extend(failures::of_the_clients_choice(OWN_REQUESTS));
    cases
}

fn own_answers() -> Vec<(&'static str, CompletionResponse)> {
    let thinking = ContentBlock::Thinking {
        thinking: "Hmm, let me see what they mean.".into(),
        signature: String::new(),
    };
    vec![(
        "thinking before a text",
        answer(vec![thinking, ContentBlock::Text("It is so.".into())], StopReason::EndTurn),
    )]
}

pub(crate) fn requests() -> Vec<(&'static str, CompletionRequest)> {
    let thinking = ContentBlock::Thinking { thinking: "Hmm.".into(), signature: String::new() };
    vec![
        (
            "thoughts of its own",
            request(vec![
                Message::user("hi"),
                Message {
                    role: Role::Assistant,
                    content: vec![thinking, ContentBlock::Text("Hello.".into())],
                },
                Message::user("And now?"),
            ]),
        ),
        (
            "extra fields",
            CompletionRequest {
                temperature: Some(0.5),
                extra: Some(json!({
                    "options": {"num_ctx": 4096, "seed": 7, "top_k": 40},
                    "keep_alive": "5m",
                    "logprobs": true,
                    "top_logprobs": 2,
                })),
                ..ask("hi")
            },
        ),
    ]
}
