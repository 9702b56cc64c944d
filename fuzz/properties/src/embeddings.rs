//! Checks the parsing of embedding responses. The result is either an error or a response with exactly one vector for
//! each text.

use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{EmbeddingError, EmbeddingResponse};

use crate::assert_short;

/// Parses an embedding response of OpenAI.
pub fn openai(input: &[u8]) {
    check(openai::wire::read_embeddings, input);
}

/// Parses an embedding response of Ollama.
pub fn ollama(input: &[u8]) {
    check(ollama::wire::read_embeddings, input);
}

/// Checks an input. The first byte is the number of texts in the request, and the other bytes are the response's body.
fn check(read: fn(&[u8], usize) -> Result<EmbeddingResponse, EmbeddingError>, input: &[u8]) {
    let [count, body @ ..] = input else {
        return;
    };
    match read(body, (*count).into()) {
        Ok(response) => assert_eq!(response.embeddings.len(), usize::from(*count)),
        Err(error) => assert_short(&error),
    }
}
