//! Encodes requests with long histories, with the providers and with hand-written code.

pub mod floor;

use neuron_provider_anthropic as anthropic;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{CompletionRequest, Message, ProviderError, RequestRef};

/// Length of the text of a message, in bytes.
const MESSAGE_BYTES: usize = 1024;

/// A vendor's API, with two functions that encode requests for the API.
#[derive(Debug)]
pub struct Api {
    /// Name of the API.
    pub name: &'static str,
    /// Encodes the body of a request with the provider.
    pub library: fn(RequestRef<'_>) -> Result<Vec<u8>, ProviderError>,
    /// Encodes the body of a request with hand-written code.
    pub floor: fn(RequestRef<'_>) -> Vec<u8>,
}

/// The measured APIs.
pub const APIS: [Api; 4] = [
    Api {
        name: "anthropic",
        library: |request| anthropic::wire::write_request(request, true),
        floor: floor::anthropic,
    },
    Api {
        name: "openai chat",
        library: |request| openai::wire::write_request(request, true),
        floor: floor::chat,
    },
    Api {
        name: "openai responses",
        library: |request| openai::wire::responses::write_request(request, true),
        floor: floor::responses,
    },
    Api {
        name: "ollama",
        library: |request| ollama::wire::write_request(request, true),
        floor: floor::ollama,
    },
];

/// Returns a request with `messages` messages of 1 KiB, alternately from the user and the model.
#[must_use]
pub fn history(messages: usize) -> CompletionRequest {
    let prose = "The quick brown fox jumps over the lazy dog; it said \"hello\".\nThen it slept. ";
    let text: String = prose.chars().cycle().take(MESSAGE_BYTES).collect();
    let message = |place: usize| match place % 2 {
        0 => Message::user(text.clone()),
        _ => Message::assistant(text.clone()),
    };
    CompletionRequest {
        model: "model-with-a-name-4-5".into(),
        messages: (0..messages).map(message).collect(),
        max_tokens: Some(4096),
        ..Default::default()
    }
}
