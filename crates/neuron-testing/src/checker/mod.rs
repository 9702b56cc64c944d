//! Checks the body of a request against a vendor's rules: one engine, and a table of rules for each vendor.
//!
//! A vendor's `rules.json` has these sections:
//!
//! - `shapes` describes the objects of a request, with their fields. [`shape`] has the notation.
//! - `refused`, and each section whose name begins with `refused`, has conditions under which the vendor rejects a
//!   request, each with the vendor's error. [`rows`] has the notation.
//! - `places` has the parts that a message of each role may have.
//! - `words` has the vendor's error for each fault that the engine finds, and a section whose name begins with `words`
//!   has other errors of one API. A fault without words gets a plain text.
//!
//! An error is a text, or a list of a code and a text. Names in braces stand for the values of the fault, and for its
//! place: `{path}` and `{parent}` in the vendor's notation, `{plain}` as in `messages.0.content`, `{key}` for the last
//! step, and `{pointer}` for the parent as a JSON pointer.
//! The rules for the order of calls and results are the same for all vendors, and are in [`conversation`]. A rule that
//! fits into none of these is code of the vendor.

mod cache;
mod conversation;
mod rows;
mod shape;
#[cfg(test)]
pub(crate) mod tests;

use serde_json::Value;

pub(crate) use conversation::{Conversation, Kind, Part, Turn, Variation, parts_of};
pub(crate) use rows::values_at;

/// The rules of a vendor.
#[derive(Debug)]
pub(crate) struct Table {
    json: Value,
    nulls: Null,
    /// Writes a path such as `messages.0.content` as the vendor does.
    place: fn(&str) -> String,
}

/// A vendor's treatment of a JSON null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    /// Null matches only kinds that allow it, such as `text or null`.
    Value,
    /// The vendor treats a field with null as missing.
    Missing,
    /// Null matches every kind.
    Fits,
}

/// A request that a vendor rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The code in the vendor's table. Empty if the table has none.
    pub(crate) code: String,
    /// The path of the wrong value, as the vendor writes it.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) type Checked = Result<(), Refusal>;

impl Table {
    /// Parses a `rules.json`. A file that is not JSON has no rules. The tests of each vendor check the file.
    pub(crate) fn parse(json: &str, nulls: Null, place: fn(&str) -> String) -> Self {
        Self { json: serde_json::from_str(json).unwrap_or_default(), nulls, place }
    }

    /// Returns an entry of a section, or null.
    pub(crate) fn entry(&self, section: &str, name: &str) -> &Value {
        self.json.get(section).and_then(|section| section.get(name)).unwrap_or(&Value::Null)
    }
}

/// Checks requests with the rules of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checker<'t> {
    pub(crate) table: &'t Table,
    /// The section whose words replace those of `words`.
    own_words: &'static str,
    /// `true` for servers that ignore unknown fields.
    is_lenient: bool,
}

impl<'t> Checker<'t> {
    pub(crate) fn new(table: &'t Table) -> Self {
        Self { table, own_words: "words", is_lenient: false }
    }

    /// Sets if unknown fields are accepted.
    pub(crate) fn lenient(self, is_lenient: bool) -> Self {
        Self { is_lenient, ..self }
    }

    /// Takes the words of this section before those of `words`.
    pub(crate) fn with_words(self, section: &'static str) -> Self {
        Self { own_words: section, ..self }
    }

    /// Returns the vendor's error for a fault of the value at `path`. `values` are the values of the names in braces.
    pub(crate) fn refuse<T>(
        self,
        fault: &str,
        path: &str,
        values: &[(&str, &str)],
    ) -> Result<T, Refusal> {
        let sections = [self.own_words, "words"].into_iter();
        let mut words = sections.map(|section| self.table.entry(section, fault));
        Err(match words.find(|words| !words.is_null()) {
            Some(words) => self.write(words, path, values),
            None => self.write(&format!("{{path}}: {fault}").into(), path, values),
        })
    }

    fn write(self, words: &Value, path: &str, values: &[(&str, &str)]) -> Refusal {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        let pointer = if parent.is_empty() { String::new() } else { format!("/{parent}") };
        let (plain, path, parent) = (path, (self.table.place)(path), (self.table.place)(parent));
        let pointer = pointer.replace('.', "/");
        let own = [
            ("plain", plain),
            ("path", &*path),
            ("parent", &*parent),
            ("key", key),
            ("pointer", &*pointer),
        ];
        let fill = |template: &Value| {
            let template = template.as_str().unwrap_or_default().to_owned();
            let names = values.iter().chain(&own);
            names.fold(template, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
        };
        let (code, text) = match words.as_array().map(Vec::as_slice) {
            Some([code, text]) => (fill(code), fill(text)),
            _ => (String::new(), fill(words)),
        };
        Refusal { code, path, text }
    }
}

/// Writes the indexes of a path in brackets, as in `messages[0].content`.
pub(crate) fn in_brackets(path: &str) -> String {
    let mut written = String::with_capacity(path.len());
    for step in path.split('.') {
        match step.parse::<usize>() {
            Ok(index) => written += &format!("[{index}]"),
            Err(_) if written.is_empty() => written += step,
            Err(_) => written += &format!(".{step}"),
        }
    }
    written
}

/// Returns the path of a field of the object at `path`.
pub(crate) fn join(path: &str, key: impl std::fmt::Display) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Returns the text in a field. Empty if the field is missing or has another type.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
