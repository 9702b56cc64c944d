//! Vectors: one for each text, or an error.

use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{EmbeddingError, EmbeddingResponse};

use crate::assert_short;

/// Reads vectors of OpenAI's.
pub fn openai(input: &[u8]) {
    check(openai::wire::read_embeddings, input);
}

/// Reads vectors of Ollama's.
pub fn ollama(input: &[u8]) {
    check(ollama::wire::read_embeddings, input);
}

/// The first byte says how many texts were sent.
fn check(read: fn(&[u8], usize) -> Result<EmbeddingResponse, EmbeddingError>, input: &[u8]) {
    let [count, body @ ..] = input else {
        return;
    };
    match read(body, (*count).into()) {
        Ok(response) => assert_eq!(response.embeddings.len(), usize::from(*count)),
        Err(error) => assert_short(&error),
    }
}
