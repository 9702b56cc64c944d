//! The floor of a stream, which is a minimal decoder that returns every piece and the final text.
//!
//! It scans for line ends, borrows the necessary fields, and creates one `String` per piece. It has no other kinds of
//! content, no vendor errors, no usage, and no events without `data: ` in front.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;

use super::{Chunks, Heard};

/// Decodes the Messages API.
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

/// Decodes Chat Completions.
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

/// Decodes the Responses API.
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

/// Decodes Ollama's chat.
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

/// Passes on each piece and collects the text.
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

/// Parses JSON. If the whole input is validated as text first, parsing is faster than with a check of each string.
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
