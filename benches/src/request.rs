//! Writing the bodies of requests with long histories: by the providers, and by hand.

pub mod floor;

use neuron_provider_anthropic as anthropic;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{CompletionRequest, Message, ProviderError};

/// The bytes of one message's text.
const MESSAGE_BYTES: usize = 1024;

/// An API, and who writes requests to it.
#[derive(Debug)]
pub struct Api {
    /// The API's name.
    pub name: &'static str,
    /// Writes a body with the provider.
    pub library: fn(&CompletionRequest) -> Result<Vec<u8>, ProviderError>,
    /// Writes the same by hand.
    pub floor: fn(&CompletionRequest) -> Vec<u8>,
}

/// All APIs.
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

/// A conversation of so many messages of 1 KiB, user and model in turns.
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
