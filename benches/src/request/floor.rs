//! Minimal hand-written encoders of requests, with which the library's encoders are compared. They serialise plain
//! structs in the wire format with `serde_json::to_vec`. The structs borrow the texts, and support only text content.

use neuron_types::{ContentBlock, Message, RequestRef, Role};
use serde::Serialize;

/// Encodes a request for Anthropic's Messages API.
pub fn anthropic(request: RequestRef<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        max_tokens: Option<usize>,
        stream: bool,
        messages: Vec<WireMessage<[Text<'a>; 1]>>,
    }
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    write(&Body {
        model: request.model,
        max_tokens: request.max_tokens,
        stream: true,
        messages: messages(request, |text| [Text { r#type: "text", text }]),
    })
}

/// Encodes a request for OpenAI's Chat Completions.
pub fn chat(request: RequestRef<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        stream: bool,
        stream_options: StreamOptions,
        max_completion_tokens: Option<usize>,
        messages: Vec<WireMessage<&'a str>>,
    }
    #[derive(Serialize)]
    struct StreamOptions {
        include_usage: bool,
    }
    write(&Body {
        model: request.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_completion_tokens: request.max_tokens,
        messages: messages(request, |text| text),
    })
}

/// Encodes a request for OpenAI's Responses API.
pub fn responses(request: RequestRef<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        stream: bool,
        store: bool,
        include: [&'static str; 1],
        max_output_tokens: Option<usize>,
        input: Vec<WireMessage<&'a str>>,
    }
    write(&Body {
        model: request.model,
        stream: true,
        store: false,
        include: ["reasoning.encrypted_content"],
        max_output_tokens: request.max_tokens,
        input: messages(request, |text| text),
    })
}

/// Encodes a request for Ollama's chat API.
pub fn ollama(request: RequestRef<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        stream: bool,
        options: Options,
        messages: Vec<WireMessage<&'a str>>,
    }
    #[derive(Serialize)]
    struct Options {
        num_predict: Option<usize>,
    }
    write(&Body {
        model: request.model,
        stream: true,
        options: Options { num_predict: request.max_tokens },
        messages: messages(request, |text| text),
    })
}

#[derive(Serialize)]
struct WireMessage<C> {
    role: &'static str,
    content: C,
}

fn messages<'a, C>(request: RequestRef<'a>, content: impl Fn(&'a str) -> C) -> Vec<WireMessage<C>> {
    let text = |message: &'a Message| match message.content.first() {
        Some(ContentBlock::Text(text)) => text.as_str(),
        _ => "",
    };
    let message = |message: &'a Message| WireMessage {
        role: if message.role == Role::User { "user" } else { "assistant" },
        content: content(text(message)),
    };
    request.messages.iter().map(message).collect()
}

fn write(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("nothing that JSON cannot hold")
}
