//! Checks the structure of a request. A shape describes an object with its fields.
//!
//! A shape lists the fields of an object and the kind of each field. A kind is another shape or one of these texts:
//!
//! | kind | value |
//! |---|---|
//! | `any` | every value |
//! | `text`, `text from 1 to 64` | a string, of 1 to 64 characters |
//! | `name`, `id`, `title` | a string of letters, digits, and the characters in [`is_allowed`]; bounds optional |
//! | `boolean`, `object` | a value of this type |
//! | `integer from 1`, `number from 0 to 2` | a number, both bounds optional |
//! | `one of low high` | one of these strings |
//! | `list`, `list from 1 to 4 of text` | an array; number and kind of the items optional |
//! | `map of text` | an object whose fields have this kind, with any names |
//! | `text or list of text` | a string, or a value of the other kind |
//! | `text or null` | a value of the kind, or an explicit null |
//! | `tagged part`, `tagged message by role` | an object whose `type`, or whose `role`, names a shape under `part` |
//! | `union part` | an object of the shape `part` with exactly one field |
//! | anything else | an object of the shape with this name |
//!
//! A `!` after the name of a field makes the field required. The key `unchecked` of a shape lists further fields, whose
//! values are not checked. A `*` in this list allows all fields. Of the fields in the list `exactly one`, an object has
//! one.
//!
//! The kind `tagged` refers to a table from tags to shapes. A text in such a table is the kind of the object.
//! `unchecked` lists the tags of objects whose fields are not checked, where a `*` at the end of a tag stands for any
//! end, and `untagged` is the tag of an object without one.

use serde_json::{Map, Value};

use super::{Checked, Checker, Null, join};

impl Checker<'_> {
    /// Checks that the value at `path` has a kind.
    ///
    /// # Errors
    ///
    /// Returns the vendor's error for the first mismatch.
    pub(crate) fn check(self, path: &str, value: &Value, kind: &Value) -> Checked {
        let Some(whole) = kind.as_str() else {
            return self.check_fields(path, value, kind, &[]);
        };
        let is_null =
            value.is_null() && (whole.ends_with(" or null") || self.table.nulls == Null::Fits);
        if is_null || whole.starts_with("text or ") && value.is_string() {
            return Ok(());
        }
        let kind = whole.trim_end_matches(" or null").trim_start_matches("text or ");
        let words: Vec<&str> = kind.split(' ').collect();
        match (words.as_slice(), value) {
            (["any"], _) | (["boolean"], Value::Bool(_)) | (["object"], Value::Object(_)) => Ok(()),
            (["one", "of", allowed @ ..], Value::String(found)) => {
                self.check_word("choice", path, found, allowed)
            }
            ([class @ ("text" | "name" | "id" | "title"), bounds @ ..], Value::String(text)) => {
                let has_gap = *class == "title" && text.contains("  ");
                match text.chars().all(|c| is_allowed(class, c)) && !has_gap {
                    true => self.check_bounds(path, text.chars().count() as f64, "string", bounds),
                    false => self.refuse("characters", path, &[("found", text)]),
                }
            }
            (["integer", bounds @ ..], Value::Number(n)) if !n.is_f64() => {
                self.check_bounds(path, n.as_f64().unwrap_or_default(), "integer", bounds)
            }
            (["number", bounds @ ..], Value::Number(n)) => {
                self.check_bounds(path, n.as_f64().unwrap_or_default(), "decimal", bounds)
            }
            (["list", rest @ ..], Value::Array(items)) => {
                self.check_bounds(path, items.len() as f64, "array", rest)?;
                let kind = Value::from(kind.split_once(" of ").map_or("any", |(_, kind)| kind));
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.check(&join(path, index), item, &kind))
            }
            (["map", "of", kind @ ..], Value::Object(fields)) => {
                let kind = Value::from(kind.join(" "));
                let mut fields = fields.iter();
                fields.try_for_each(|(key, value)| self.check(&join(path, key), value, &kind))
            }
            (["union", shape], Value::Object(fields)) => {
                self.check(path, value, &Value::from(*shape))?;
                self.check_one(path, fields, |_| true)
            }
            (["tagged", table, by @ ..], Value::Object(fields)) => {
                self.check_tagged(path, value, fields, table, by.last().unwrap_or(&"type"))
            }
            ([name], Value::Object(_)) if self.table.entry("shapes", name).is_object() => {
                self.check_fields(path, value, self.table.entry("shapes", name), &[])
            }
            _ => self.mistyped(path, value, kind),
        }
    }

    fn mistyped(self, path: &str, value: &Value, kind: &str) -> Checked {
        let expected = match kind.split(' ').next().unwrap_or_default() {
            "text" | "name" | "id" | "title" | "one" => "string",
            "number" => "decimal",
            "list" => "array",
            own @ ("boolean" | "integer") => own,
            _ => "object",
        };
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "decimal",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let values = [("expected", expected), ("found", found), ("value", &*value.to_string())];
        self.refuse("type", path, &values)
    }

    fn check_word(self, fault: &str, path: &str, found: &str, allowed: &[&str]) -> Checked {
        match allowed.contains(&found) {
            true => Ok(()),
            false => {
                self.refuse(fault, path, &[("found", found), ("allowed", &allowed.join(", "))])
            }
        }
    }

    /// Checks a number, or the length of a string or a list. The bounds are before the word `of`, such as `from 1 to
    /// 64`.
    fn check_bounds(self, path: &str, found: f64, kind: &str, bounds: &[&str]) -> Checked {
        let own = bounds.split(|word| *word == "of").next().unwrap_or_default();
        let (least, most) = parse_bounds(own);
        let (low, high) = match kind {
            "string" | "array" => ("short", "long"),
            _ => ("small", "large"),
        };
        let fault = match found {
            found if found < least => low,
            found if found > most => high,
            _ => return Ok(()),
        };
        let [found, least, most] = [found, least, most].map(|number| number.to_string());
        let values = [("kind", kind), ("found", &*found), ("least", &*least), ("most", &*most)];
        self.refuse(fault, path, &values)
    }

    fn check_tagged(
        self,
        path: &str,
        value: &Value,
        fields: &Map<String, Value>,
        table: &str,
        key: &str,
    ) -> Checked {
        let table = self.table.entry("shapes", table);
        let tag = match (fields.get(key), table.get("untagged").and_then(Value::as_str)) {
            (None, Some(untagged)) => untagged,
            (None, None) => return self.refuse("missing", &join(path, key), &[]),
            (Some(tag), _) => {
                self.check(&join(path, key), tag, &"text".into())?;
                tag.as_str().unwrap_or_default()
            }
        };
        let fits = |known: &str| {
            known.strip_suffix('*').map_or(known == tag, |start| tag.starts_with(start))
        };
        match table.get(tag).filter(|_| !["unchecked", "untagged"].contains(&tag)) {
            Some(Value::String(kind)) if kind.contains(' ') => {
                self.check(path, value, &Value::from(&**kind))
            }
            Some(Value::String(name)) => {
                self.check_fields(path, value, self.table.entry("shapes", name), &[key])
            }
            Some(shape) => self.check_fields(path, value, shape, &[key]),
            None if words(table, "unchecked").any(fits) => Ok(()),
            None => {
                let tags = table.as_object().into_iter().flatten().map(|(tag, _)| &**tag);
                let tags = tags.filter(|tag| !["unchecked", "untagged"].contains(tag));
                let tags: Vec<&str> = tags.chain(words(table, "unchecked")).collect();
                self.check_word("tag", &join(path, key), tag, &tags)
            }
        }
    }

    /// Checks an object for missing fields, then for unknown fields, and then each field. `others` are fields that the
    /// shape does not list.
    fn check_fields(self, path: &str, value: &Value, shape: &Value, others: &[&str]) -> Checked {
        let Some(fields) = value.as_object() else { return self.mistyped(path, value, "object") };
        let kinds = shape.as_object().into_iter().flatten();
        let kinds = kinds.filter(|(key, _)| !["unchecked", "exactly one"].contains(&key.as_str()));
        let kinds: Vec<(&str, &Value)> =
            kinds.map(|(key, kind)| (key.trim_end_matches('!'), kind)).collect();
        for (key, kind) in kinds.iter().filter(|(key, _)| shape.get(format!("{key}!")).is_some()) {
            let is_nullable = kind.as_str().is_some_and(|kind| kind.ends_with(" or null"));
            if !fields.get(*key).is_some_and(|value| is_nullable || self.is_set(value)) {
                return self.refuse("missing", &join(path, key), &[]);
            }
        }
        let is_known = |key: &str| {
            kinds.iter().any(|(known, _)| *known == key)
                || others.contains(&key)
                || words(shape, "unchecked").any(|known| known == key || known == "*")
        };
        if !self.is_lenient
            && let Some(key) = fields.keys().find(|key| !is_known(key))
        {
            return self.refuse("unknown", &join(path, key), &[]);
        }
        if shape.get("exactly one").is_some() {
            self.check_one(path, fields, |key| words(shape, "exactly one").any(|it| it == key))?;
        }
        kinds.iter().try_for_each(|(key, kind)| match fields.get(*key) {
            Some(value) if self.is_set(value) => self.check(&join(path, key), value, kind),
            _ => Ok(()),
        })
    }

    /// Checks that exactly one of the fields is set that `counts` selects.
    fn check_one(
        self,
        path: &str,
        fields: &Map<String, Value>,
        counts: impl Fn(&str) -> bool,
    ) -> Checked {
        let mut set = fields.iter().filter(|(key, value)| counts(key) && self.is_set(value));
        match (set.next(), set.next()) {
            (None, _) => self.refuse("missing", path, &[]),
            (_, Some((second, _))) => self.refuse("second of", &join(path, second), &[]),
            _ => Ok(()),
        }
    }

    /// Returns `true` unless the vendor takes a field with this value for a missing field.
    pub(super) fn is_set(self, value: &Value) -> bool {
        self.table.nulls == Null::Value || !value.is_null()
    }
}

/// Returns the words in the field `key` of a shape. A missing field has no words.
pub(super) fn words<'a>(shape: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    shape.get(key).and_then(Value::as_str).unwrap_or_default().split_whitespace()
}

/// Returns `true` if a kind of text allows a character.
fn is_allowed(class: &str, c: char) -> bool {
    let others = match class {
        "text" => return true,
        "name" => "_-",
        "id" => "_-.:",
        _ => " -()[]",
    };
    c.is_ascii_alphanumeric() || others.contains(c)
}

/// Returns the bounds in `from 1 to 64`, both of which are optional.
pub(super) fn parse_bounds(words: &[&str]) -> (f64, f64) {
    let bound = |word: &str| {
        let at = words.iter().position(|known| *known == word)?;
        words.get(at + 1)?.parse().ok()
    };
    (bound("from").unwrap_or(f64::NEG_INFINITY), bound("to").unwrap_or(f64::INFINITY))
}
