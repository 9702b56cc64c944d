//! Secret values in recorded texts.

use std::ops::Range;

use neuron_types::secret_formats::{secrets_in, secrets_in_field};
use serde_json::{Map, Value};

/// The placeholder that replaces a secret in a known format.
const KEY: &str = "[KEY]";
/// Fields of the file format whose values are fixed names such as `assistant`. These values are never secret.
const NAMES: [&str; 4] = ["type", "role", "stop_reason", "kind"];

/// The secret values of a cassette, with the placeholders that replace them in its file.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<Secret>);

/// A text to replace, and its placeholder. The text is a secret value, or that value with JSON escapes.
#[derive(Clone)]
struct Secret {
    text: String,
    placeholder: String,
}

impl Secrets {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        // Tool results and the deltas of arguments are JSON inside of a text, and JSON inside of JSON.
        let once = escaped(value);
        let twice = escaped(&once);
        for (text, level) in [(value, ""), (&*once, ":json"), (&*twice, ":json:json")] {
            if self.0.iter().all(|secret| secret.text != text) {
                let placeholder = format!("[secret:{name}{level}]");
                self.0.push(Secret { text: text.to_owned(), placeholder });
            }
        }
        // A secret that contains another secret is replaced as a whole.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
    }

    /// Replaces secrets by placeholders in all texts of a JSON value, including field names. A field name of only
    /// lower-case letters and `_` is not changed, because the cassette format itself has such names.
    pub(super) fn remove(&self, value: &mut Value) {
        map_texts("", value, &|field, text| {
            with_ranges(text, 0, &self.ranges(text, secrets_in_field(field, text)))
        });
    }

    /// Replaces placeholders by the secrets in all texts of a JSON value.
    pub(super) fn restore(&self, value: &mut Value) {
        map_texts("", value, &|_, text| {
            let placeholders = |rest: &str| {
                let found = self.0.iter().find(|secret| rest.starts_with(&secret.placeholder));
                found.map(|secret| (secret.placeholder.len(), secret.text.as_str()))
            };
            with_ranges(text, 0, &found(text, placeholders))
        });
    }

    /// Replaces secrets in the text that `pieces` form together, even if a secret is split over several pieces. The
    /// piece in which the secret begins then gets the whole placeholder.
    pub(super) fn remove_in_pieces(&self, pieces: &mut [&mut String]) {
        let whole: String = pieces.iter().map(|piece| piece.as_str()).collect();
        let ranges = self.ranges(&whole, secrets_in(&whole));
        let mut start = 0;
        for piece in pieces {
            let length = piece.len();
            **piece = with_ranges(piece, start, &ranges);
            start += length;
        }
    }

    /// Returns the byte ranges of secrets in a text, each with its placeholder. `keys` are the ranges of secrets in
    /// known formats. A secret of this cassette gets its own placeholder, even inside of a key.
    fn ranges(
        &self,
        text: &str,
        keys: impl Iterator<Item = Range<usize>>,
    ) -> Vec<(Range<usize>, &str)> {
        let secrets = found(text, |rest| {
            let secret = self.0.iter().find(|secret| rest.starts_with(&secret.text));
            secret.map(|secret| (secret.text.len(), secret.placeholder.as_str()))
        });
        let (mut secrets, mut ranges) = (secrets.into_iter().peekable(), Vec::new());
        for key in keys {
            let mut start = key.start;
            while let Some(secret) = secrets.next_if(|(secret, _)| secret.start < key.end) {
                if start < secret.0.start {
                    ranges.push((start..secret.0.start, KEY));
                }
                start = start.max(secret.0.end);
                ranges.push(secret);
            }
            if start < key.end {
                ranges.push((start..key.end, KEY));
            }
        }
        ranges.extend(secrets);
        ranges
    }
}

/// Returns the byte ranges of `text` to replace, each with its replacement. The ranges do not overlap.
///
/// `find` gets the text from a position to its end. If a text to replace begins there, `find` returns its length in
/// bytes and its replacement.
fn found<'s>(
    text: &str,
    find: impl Fn(&str) -> Option<(usize, &'s str)>,
) -> Vec<(Range<usize>, &'s str)> {
    let (mut ranges, mut end) = (Vec::new(), 0);
    for (at, _) in text.char_indices() {
        if at >= end
            && let Some((length, replacement)) = text.get(at..).and_then(&find)
        {
            end = at + length;
            ranges.push((at..end, replacement));
        }
    }
    ranges
}

/// Returns the piece `piece` of a longer text, with the replacements in `ranges`. The ranges are byte positions in the
/// longer text, in ascending order. `start` is the position of the piece in the longer text.
fn with_ranges(piece: &str, start: usize, ranges: &[(Range<usize>, &str)]) -> String {
    let first = ranges.partition_point(|(range, _)| range.end <= start);
    let mut ranges = ranges.iter().skip(first).peekable();
    let mut replaced = String::with_capacity(piece.len());
    for (at, char) in piece.char_indices().map(|(at, char)| (at + start, char)) {
        while ranges.next_if(|(range, _)| range.end <= at).is_some() {}
        match ranges.peek() {
            Some((range, replacement)) if range.start == at => replaced.push_str(replacement),
            Some((range, _)) if range.contains(&at) => {}
            _ => replaced.push(char),
        }
    }
    replaced
}

/// Returns a text with JSON's escapes, without the quotes around it.
fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}

/// Applies a function to all texts in the JSON value of a field, except the values of the fields in [`NAMES`]. The
/// function also gets the name of the text's field, which is empty in an array.
fn map_texts(field: &str, value: &mut Value, map: &impl Fn(&str, &str) -> String) {
    match value {
        Value::String(text) => *text = map(field, text),
        Value::Array(items) => items.iter_mut().for_each(|item| map_texts("", item, map)),
        Value::Object(fields) => {
            let mapped = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                if !NAMES.contains(&name.as_str()) {
                    map_texts(&name, &mut value, map);
                }
                // The names of the format have only lower-case letters and `_`.
                let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                (if is_plain { name } else { map("", &name) }, value)
            });
            *fields = mapped.collect::<Map<_, _>>();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
