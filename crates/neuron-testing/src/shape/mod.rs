//! Checks the structure of a request against the shapes of a vendor. A shape describes an object with its fields.
//!
//! Each vendor lists the objects of its requests in a `shapes.json`. A shape lists the fields of an object and the kind
//! of each field. A kind is another shape or one of these texts:
//!
//! | kind | value |
//! |---|---|
//! | `any` | every value |
//! | `text`, `text up to 64` | a string, of at most 64 characters |
//! | `name`, `name up to 64` | a string of letters, digits, `_` and `-` |
//! | `boolean`, `object`, `map` | a value of this type; vendors word `object` and `map` differently |
//! | `integer from 1`, `number from 0 to 2` | a number, both bounds optional |
//! | `count from 1` | an integer that is not negative |
//! | `one of low high` | one of these strings |
//! | `list`, `nonempty list up to 4 of text` | an array; length and kind of the items optional |
//! | `text or list of text` | a string, or a value of the other kind |
//! | `text or null` | a value of the kind, or an explicit null |
//! | `tagged part` | an object whose `type` names one of the shapes under `part` |
//! | `union part` | an object of the shape `part` with exactly one field |
//! | anything else | an object of the shape with this name |
//!
//! A `!` after the name of a field makes the field required. The key `unchecked` of a shape lists further fields whose
//! values are not checked. A `*` in this list allows all fields.
//!
//! The kind `tagged` refers to a table from tags to shapes. In such a table, `unchecked` lists the tags of objects
//! whose fields are not checked, and a text is the name of another shape.
//!
//! Rules about several fields are in the code for each vendor.

mod kind;
mod object;

use serde_json::Value;

pub(crate) use kind::check;
pub(crate) use object::Object;

/// The shapes of a vendor, and the vendor's error texts for requests that do not match a shape.
pub(crate) trait Wording: Copy + 'static {
    /// The type of the vendor's errors.
    type Error;

    /// The vendor's treatment of a JSON null.
    const NULL: Null;

    /// Returns the content of the vendor's `shapes.json`.
    fn shapes(self) -> &'static Value;

    /// Returns `true` if the vendor accepts requests with unknown fields. Default: `false`.
    fn is_lenient(self) -> bool {
        false
    }

    /// Returns the path of the item at `index` in the list at `path`, in the vendor's notation.
    fn item(self, path: &str, index: usize) -> String;

    /// Returns the path that the vendor prints for the object at `path` after its tag is known. The tag is the type
    /// that selects the shape of the object. Default: `path`.
    fn tagged(self, path: &str, tag: &str) -> String {
        let _ = tag;
        path.to_owned()
    }

    /// Returns the vendor's error for a problem with the value at `path`.
    fn error(self, path: &str, problem: Problem<'_>) -> Self::Error;

    /// Returns the shape, or the table of shapes, with the name `name`. Returns null if there is none.
    fn shape(self, name: &str) -> &'static Value {
        self.shapes().get(name).unwrap_or(&Value::Null)
    }
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

/// A mismatch between a value in a request and the kind that its shape requires.
#[derive(Debug)]
pub(crate) enum Problem<'a> {
    /// A required field is missing.
    Missing,
    /// An object has a field that its shape does not have.
    Unknown,
    /// A value does not have the type that its kind requires.
    Type {
        /// The expected kind of JSON value, as in `shapes.json`.
        expected: &'a str,
        found: &'a Value,
    },
    /// A string is not one of the allowed strings.
    Choice { allowed: &'a [&'a str], found: &'a str },
    /// The tag of an object, in its field `key`, is not in the table of tags.
    Tag { key: &'a str, tags: &'a [&'a str], found: &'a str },
    /// A number is less than `least` or greater than `most`.
    Range { is_integer: bool, least: f64, most: f64, found: f64 },
    /// A name contains a character that is not allowed.
    Pattern,
    /// A list or a name is empty.
    Empty { is_list: bool },
    /// A list has more than `most` items, or a string has more than `most` characters. `found` is the actual length.
    Length { is_list: bool, most: usize, found: usize },
}

/// Parses the content of a `shapes.json`. Returns null if the content is not JSON. The tests of each vendor validate
/// the file.
pub(crate) fn parse(shapes: &str) -> Value {
    serde_json::from_str(shapes).unwrap_or_default()
}

/// Returns the words of the whitespace-separated list in the field `key` of a shape. A missing field has no words.
pub(crate) fn words<'a>(shape: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    shape.get(key).and_then(Value::as_str).unwrap_or_default().split_whitespace()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const GRAMMAR: &str = "any text name up to boolean object map integer number from count list \
                           nonempty of or null tagged union";

    /// Asserts that every kind in the vendor's `shapes.json` contains only words of the grammar, numbers and names of
    /// shapes.
    ///
    /// `lists` names the top-level entries of the file that are lists of words, not shapes.
    pub(crate) fn check_shapes(vendor: impl Wording, lists: &[&str]) {
        let shapes = vendor.shapes().as_object().unwrap();
        let shapes = shapes.iter().filter(|(name, _)| !lists.contains(&name.as_str()));
        shapes.for_each(|(_, shape)| check_shape(vendor, shape));
    }

    fn check_shape(vendor: impl Wording, shape: &Value) {
        for (key, kind) in shape.as_object().unwrap() {
            let Some(kind) = kind.as_str() else {
                check_shape(vendor, kind);
                continue;
            };
            let (kind, _words) = kind.split_once("one of ").unwrap_or((kind, ""));
            for word in kind.split_whitespace().filter(|_| key != "unchecked") {
                let known = GRAMMAR.split(' ').any(|known| known == word)
                    || word.parse::<f64>().is_ok()
                    || vendor.shape(word).is_object();
                assert!(known, "{key}: {kind}");
            }
        }
    }
}
