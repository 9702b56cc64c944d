//! What is Ollama's alone: the answers and requests that no other vendor has.

use neuron_testing::Reply;
use neuron_types::{CompletionRequest, CompletionResponse, ContentBlock, StopReason};
use serde_json::json;

use crate::answers::{answer, answers, embeddings};
use crate::failures;
use crate::serve::Case;
use crate::vendor::{Form, MakeEmbedder};

pub(crate) const FORMS: &[Form] = &[];

pub(crate) const EMBEDDER: Option<MakeEmbedder> = None;

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
    Vec::new()
}
