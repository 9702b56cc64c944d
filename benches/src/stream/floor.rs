//! Minimal hand-written decoders of each vendor's stream, with which the library's decoders are compared.
//!
//! A decoder returns every text delta and the final text. It searches for line ends, parses only the necessary fields
//! without copying them, and allocates one `String` per delta. It supports no other kinds of content, no errors, no
//! usage, and no lines without the prefix `data: `.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;

use super::{Chunks, Heard};

/// Decodes a stream of Anthropic's Messages API.
pub fn anthropic(chunks: Chunks) -> Heard {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        delta: Delta<'a>,
    }
    #[derive(Default, Deserialize)]
    struct Delta<'a> {
        #[serde(borrow, default)]
        text: Cow<'a, str>,
    }
    collect(|hear| {
        each_event(chunks, |data| {
            let event: Event<'_> = parse(data);
            if event.kind == "content_block_delta" {
                hear(event.delta.text);
            }
        });
    })
}

/// Decodes a stream of OpenAI's Chat Completions.
pub fn chat(chunks: Chunks) -> Heard {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        delta: Delta<'a>,
    }
    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow, default)]
        content: Cow<'a, str>,
    }
    collect(|hear| {
        each_event(chunks, |data| {
            if data == b"[DONE]" {
                return;
            }
            let chunk: Chunk<'_> = parse(data);
            for choice in chunk.choices {
                hear(choice.delta.content);
            }
        });
    })
}

/// Decodes a stream of OpenAI's Responses API.
pub fn responses(chunks: Chunks) -> Heard {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        delta: Cow<'a, str>,
    }
    collect(|hear| {
        each_event(chunks, |data| {
            let event: Event<'_> = parse(data);
            if event.kind == "response.output_text.delta" {
                hear(event.delta);
            }
        });
    })
}

/// Decodes a stream of Ollama's chat API.
pub fn ollama(chunks: Chunks) -> Heard {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        message: Content<'a>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Cow<'a, str>,
    }
    collect(|hear| {
        each_line(chunks, |line| {
            let line: Line<'_> = parse(line);
            hear(line.message.content);
        });
    })
}

/// Counts the text deltas that `read` passes to its argument, and joins them to the final text.
fn collect(read: impl FnOnce(&mut dyn FnMut(Cow<'_, str>))) -> Heard {
    let mut heard = Heard { pieces: 0, text: String::new() };
    read(&mut |piece| {
        if piece.is_empty() {
            return;
        }
        heard.pieces += 1;
        heard.text.push_str(&piece);
        std::hint::black_box(piece.into_owned());
    });
    heard
}

/// Parses JSON. Validating the whole input as UTF-8 first is faster than letting the parser validate each string.
fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> T {
    let text = std::str::from_utf8(bytes).expect("text");
    serde_json::from_str(text).expect("JSON as expected")
}

fn each_event(chunks: Chunks, mut on_data: impl FnMut(&[u8])) {
    each_line(chunks, |line| {
        if let Some(data) = line.strip_prefix(b"data: ") {
            on_data(data);
        }
    });
}

fn each_line(chunks: Chunks, mut on_line: impl FnMut(&[u8])) {
    let mut begun = Vec::new();
    for bytes in chunks {
        let mut bytes = bytes.as_ref();
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            if begun.is_empty() {
                on_line(line);
            } else {
                begun.extend_from_slice(line);
                on_line(&begun);
                begun.clear();
            }
            bytes = &rest[1..];
        }
        begun.extend_from_slice(bytes);
    }
}
