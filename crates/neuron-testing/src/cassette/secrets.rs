//! Secret values in recorded texts.

use std::ops::Range;

use serde_json::{Map, Value};

/// Beginnings of the keys of well-known services. `eyJ` begins a JSON Web Token.
const KEYS: [&str; 22] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "gsk_",
    "xai-",
    "hf_",
    "glpat-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "AKIA",
    "ASIA",
    "AIza",
    "npm_",
    "xoxb-",
    "xoxp-",
    "pk-",
    "pk_live_",
    "SG.",
    "eyJ",
];
/// Minimum length of a key in bytes. Shorter words with the same beginning are ordinary text.
const KEY_BYTES: usize = 20;
/// The placeholder that replaces an API key of a well-known service.
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
        map_texts(value, &|text| with_ranges(text, 0, &self.ranges(text)));
    }

    /// Replaces placeholders by the secrets in all texts of a JSON value.
    pub(super) fn restore(&self, value: &mut Value) {
        map_texts(value, &|text| {
            let placeholders = |(_, rest): (usize, &str)| {
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
        let ranges = self.ranges(&whole);
        let mut start = 0;
        for piece in pieces {
            let length = piece.len();
            **piece = with_ranges(piece, start, &ranges);
            start += length;
        }
    }

    /// Returns the byte ranges of secrets and of API keys of well-known services in a text, each with its placeholder.
    fn ranges<'s>(&'s self, text: &'s str) -> Vec<(Range<usize>, &'s str)> {
        found(text, |(at, rest)| {
            let secret = self.0.iter().find(|secret| rest.starts_with(&secret.text));
            let secret = secret.map(|secret| (secret.text.len(), secret.placeholder.as_str()));
            secret.or_else(|| key_length(text, at).map(|length| (length, KEY)))
        })
    }
}

/// Returns the byte ranges of `text` to replace, each with its replacement. The ranges do not overlap.
///
/// `find` gets a byte position and the text from this position. If a text to replace begins there, `find` returns its
/// length in bytes and its replacement. Otherwise `find` returns `None`.
fn found<'s>(
    text: &'s str,
    find: impl Fn((usize, &'s str)) -> Option<(usize, &'s str)>,
) -> Vec<(Range<usize>, &'s str)> {
    let (mut ranges, mut end) = (Vec::new(), 0);
    for (at, _) in text.char_indices() {
        if at >= end
            && let Some((length, replacement)) = text.get(at..).and_then(|rest| find((at, rest)))
        {
            end = at + length;
            ranges.push((at..end, replacement));
        }
    }
    ranges
}

/// Returns the piece `piece` of a longer text, with the replacements in `ranges`. The ranges are byte positions in the
/// longer text. `start` is the position of the piece in the longer text.
fn with_ranges(piece: &str, start: usize, ranges: &[(Range<usize>, &str)]) -> String {
    let mut replaced = String::with_capacity(piece.len());
    for (at, char) in piece.char_indices().map(|(at, char)| (at + start, char)) {
        match ranges.iter().find(|(range, _)| range.contains(&at)) {
            Some((range, replacement)) if range.start == at => replaced.push_str(replacement),
            Some(_) => {}
            None => replaced.push(char),
        }
    }
    replaced
}

/// Returns the length in bytes of the API key that begins at the byte `at` of a text. Returns `None` if no key of a
/// well-known service begins there.
fn key_length(text: &str, at: usize) -> Option<usize> {
    let is_of_key = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let (before, rest) = text.split_at_checked(at)?;
    let mut earlier = before.chars().rev();
    let begins_word = match (earlier.next(), earlier.next()) {
        // An escape in JSON, such as `\n`.
        (Some('n' | 'r' | 't'), Some('\\')) => true,
        (Some(char), _) => !is_of_key(char),
        (None, _) => true,
    };
    if !begins_word || !KEYS.iter().any(|key| rest.starts_with(key)) {
        return None;
    }
    let length = rest.find(|char| !is_of_key(char) && char != '.').unwrap_or(rest.len());
    let key = rest.get(..length)?.trim_end_matches('.');
    let has_digit = key.bytes().any(|byte| byte.is_ascii_digit());
    (key.len() >= KEY_BYTES && has_digit).then_some(key.len())
}

/// Returns a text with JSON's escapes, without the quotes around it.
fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}

/// Applies a function to all texts of a JSON value, except the values of the fields in [`NAMES`].
fn map_texts(value: &mut Value, map: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = map(text),
        Value::Array(items) => items.iter_mut().for_each(|item| map_texts(item, map)),
        Value::Object(fields) => {
            let mapped = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                if !NAMES.contains(&name.as_str()) {
                    map_texts(&mut value, map);
                }
                // The names of the format have only lower-case letters and `_`.
                let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                (if is_plain { name } else { map(&name) }, value)
            });
            *fields = mapped.collect::<Map<_, _>>();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
