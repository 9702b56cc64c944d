//! Reading a JSON object strictly, with the vendor's words for what is wrong.

use serde_json::{Map, Value};

use super::ApiError;

/// An object in a request, and the path to it.
pub(super) struct Object<'a> {
    path: String,
    pub(super) fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(super) fn new(path: &str, value: &'a Value) -> Result<Self, ApiError> {
        match value.as_object() {
            Some(fields) => Ok(Self { path: path.to_owned(), fields }),
            None if path.is_empty() => Err(invalid("Input should be an object")),
            None => Err(invalid(format!("{path}: Input should be an object"))),
        }
    }

    /// The object with the name of its kind at the path's end, as the vendor has it.
    pub(super) fn of_kind(&self, kind: &str) -> Self {
        Self { path: self.path_of(kind), fields: self.fields }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key)
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a Value, ApiError> {
        self.get(key).ok_or_else(|| invalid(format!("{}: Field required", self.path_of(key))))
    }

    /// A string that must be there.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, ApiError> {
        self.required(key)?.as_str().ok_or_else(|| {
            invalid(format!("{}: Input should be a valid string", self.path_of(key)))
        })
    }

    /// A list that may be missing.
    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], ApiError> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(invalid(format!("{}: Input should be a valid list", self.path_of(key)))),
        }
    }

    /// An object that may be missing.
    pub(super) fn object(&self, key: &str) -> Result<Option<Object<'a>>, ApiError> {
        self.get(key).map(|value| Object::new(&self.path_of(key), value)).transpose()
    }

    /// Refuses keys that are in none of the lists.
    pub(super) fn only(&self, allowed: &[&[&str]]) -> Result<(), ApiError> {
        let known = |key: &&String| allowed.iter().any(|keys| keys.contains(&key.as_str()));
        match self.fields.keys().find(|key| !known(key)) {
            Some(key) => {
                Err(invalid(format!("{}: Extra inputs are not permitted", self.path_of(key))))
            }
            None => Ok(()),
        }
    }
}

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::invalid_request(message)
}

/// The error for a value that is none of a few.
pub(super) fn expected(path: &str, values: &[&str]) -> ApiError {
    let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
    let list = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    invalid(format!("{path}: Input should be {list}"))
}

/// The error for an object whose `type` is none of those it may have.
pub(super) fn unknown_tag<'a>(
    path: &str,
    tag: &str,
    tags: impl Iterator<Item = &'a str>,
) -> ApiError {
    let tags: Vec<String> = tags.map(|tag| format!("'{tag}'")).collect();
    let tags = tags.join(", ");
    invalid(format!(
        "{path}: Input tag '{tag}' found using 'type' does not match any of the expected tags: \
         {tags}"
    ))
}

/// Checks an identifier: letters, digits, `_` and `-`, at most `longest` of them.
pub(super) fn check_name(path: &str, name: &str, longest: usize) -> Result<(), ApiError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(invalid(format!("{path}: String should match pattern '^[a-zA-Z0-9_-]+$'")));
    }
    if name.len() > longest {
        return Err(invalid(format!("{path}: String should have at most {longest} characters")));
    }
    Ok(())
}
