//! Secret values in recorded texts.

use serde_json::Value;

/// Beginnings of the keys of well-known services.
const KEYS: [&str; 9] =
    ["sk-", "pk-", "AKIA", "AIza", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-"];
/// Minimum length of a key in bytes. Shorter words with the same beginning are ordinary text.
const KEY_BYTES: usize = 20;
/// The replacement of a key.
const KEY: &str = "[KEY]";

/// The secret values and their names.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<(String, String)>);

impl Secrets {
    pub(super) fn add(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.0.push((format!("[{name}]"), value));
            // A secret that contains another secret is replaced first.
            self.0.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        }
    }

    /// Replaces secrets by their names in all texts of a JSON value.
    pub(super) fn remove(&self, value: &mut Value) {
        for_each_text(value, &|text| {
            let mut text = text.to_owned();
            for (name, value) in &self.0 {
                text = text.replace(value.as_str(), name);
            }
            without_keys(&text)
        });
    }

    /// Replaces the names of secrets by their values in all texts of a JSON value.
    pub(super) fn restore(&self, value: &mut Value) {
        for_each_text(value, &|text| {
            self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        });
    }
}

fn for_each_text(value: &mut Value, map: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = map(text),
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_text(item, map)),
        Value::Object(fields) => fields.values_mut().for_each(|value| for_each_text(value, map)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a text with its keys of well-known services replaced.
fn without_keys(text: &str) -> String {
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_word) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !is_of_word(c)).unwrap_or(word.len()));
        let is_key = word.len() >= KEY_BYTES && KEYS.iter().any(|key| word.starts_with(key));
        clean.push_str(before);
        clean.push_str(if is_key { KEY } else { word });
        rest = after;
    }
    clean.push_str(rest);
    clean
}
