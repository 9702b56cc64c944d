//! Checks that a response has one vector for each text, or is an error.

use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{EmbeddingError, EmbeddingResponse};

use crate::assert_short;

/// Parses vectors of OpenAI.
pub fn openai(input: &[u8]) {
    check(openai::wire::read_embeddings, input);
}

/// Parses vectors of Ollama.
pub fn ollama(input: &[u8]) {
    check(ollama::wire::read_embeddings, input);
}

/// Checks an input. Its first byte is the number of the texts that were sent.
fn check(read: fn(&[u8], usize) -> Result<EmbeddingResponse, EmbeddingError>, input: &[u8]) {
    let [count, body @ ..] = input else {
        return;
    };
    match read(body, (*count).into()) {
        Ok(response) => assert_eq!(response.embeddings.len(), usize::from(*count)),
        Err(error) => assert_short(&error),
    }
}
