//! Reading a JSON object strictly, with the vendor's words for what is wrong.

use serde_json::{Map, Value};

use super::ApiError;

/// An object in a request, and the path to it.
pub(super) struct Object<'a> {
    path: String,
    fields: &'a Map<String, Value>,
    /// Whether parameters that the vendor does not know are taken.
    lenient: bool,
}

impl<'a> Object<'a> {
    /// The body itself.
    pub(super) fn body(value: &'a Value, lenient: bool) -> Result<Self, ApiError> {
        match value.as_object() {
            Some(fields) => Ok(Self { path: String::new(), fields, lenient }),
            None => Err(ApiError::invalid_request(format!(
                "Invalid type for the request body: expected an object, but got {} instead.",
                kind_of(value)
            ))
            .code("invalid_type")),
        }
    }

    pub(super) fn lenient(&self) -> bool {
        self.lenient
    }

    /// A value under this one as an object.
    pub(super) fn child(&self, path: &str, value: &'a Value) -> Result<Object<'a>, ApiError> {
        match value.as_object() {
            Some(fields) => Ok(Self { path: path.to_owned(), fields, lenient: self.lenient }),
            None => Err(invalid_type(path, "an object", value)),
        }
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

    /// A value that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// Whether the value is there, as null maybe.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a Value, ApiError> {
        self.get(key).ok_or_else(|| missing(&self.path_of(key)))
    }

    /// A string that must be there.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, ApiError> {
        self.required(key)?;
        self.optional_text(key).map(Option::unwrap_or_default)
    }

    /// A string that may be missing.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(key, "a string", Value::as_str)
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, ApiError> {
        self.typed(key, "a boolean", Value::as_bool)
    }

    /// A list that may be missing.
    pub(super) fn list(&self, key: &str) -> Result<Option<&'a [Value]>, ApiError> {
        self.typed(key, "an array", |value| value.as_array().map(Vec::as_slice))
    }

    /// The objects of a list that may be missing.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Object<'a>>, ApiError> {
        let list = self.list(key)?.unwrap_or_default().iter().enumerate();
        let path = self.path_of(key);
        list.map(|(index, value)| self.child(&format!("{path}[{index}]"), value)).collect()
    }

    /// An object that may be missing.
    pub(super) fn object(&self, key: &str) -> Result<Option<Object<'a>>, ApiError> {
        self.get(key).map(|value| self.child(&self.path_of(key), value)).transpose()
    }

    /// A word that is one of a few and may be missing.
    pub(super) fn one_of(&self, key: &str, allowed: &[&str]) -> Result<Option<&'a str>, ApiError> {
        match self.optional_text(key)? {
            Some(word) if !allowed.contains(&word) => {
                Err(invalid_value(&self.path_of(key), word, allowed))
            }
            word => Ok(word),
        }
    }

    /// A whole number that may be missing.
    pub(super) fn integer(&self, key: &str, least: i64) -> Result<Option<i64>, ApiError> {
        match self.typed(key, "an integer", Value::as_i64)? {
            Some(number) if number < least => Err(invalid(
                &self.path_of(key),
                &format!(
                    "integer below minimum value. Expected a value >= {least}, but got {number} \
                     instead."
                ),
                "integer_below_min_value",
            )),
            number => Ok(number),
        }
    }

    /// A number that may be missing.
    pub(super) fn number(&self, key: &str, least: f64, most: f64) -> Result<Option<f64>, ApiError> {
        let number = self.typed(key, "a decimal", Value::as_f64)?;
        let path = self.path_of(key);
        match number {
            Some(number) if number < least => Err(invalid(
                &path,
                &format!(
                    "decimal below minimum value. Expected a value >= {least}, but got {number} \
                     instead."
                ),
                "decimal_below_min_value",
            )),
            Some(number) if number > most => Err(invalid(
                &path,
                &format!(
                    "decimal above maximum value. Expected a value <= {most}, but got {number} \
                     instead."
                ),
                "decimal_above_max_value",
            )),
            number => Ok(number),
        }
    }

    /// Refuses keys that are in none of the lists.
    pub(super) fn only(&self, allowed: &[&[&str]]) -> Result<(), ApiError> {
        let known = |key: &&String| allowed.iter().any(|keys| keys.contains(&key.as_str()));
        match self.fields.keys().find(|key| !known(key)) {
            Some(key) if !self.lenient => {
                let path = self.path_of(key);
                Err(ApiError::invalid_request(format!("Unknown parameter: '{path}'."))
                    .param(path)
                    .code("unknown_parameter"))
            }
            _ => Ok(()),
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(invalid_type(&self.path_of(key), expected, value)),
        }
    }
}

pub(super) fn missing(path: &str) -> ApiError {
    ApiError::invalid_request(format!("Missing required parameter: '{path}'."))
        .param(path)
        .code("missing_required_parameter")
}

pub(super) fn invalid_type(path: &str, expected: &str, value: &Value) -> ApiError {
    let got = kind_of(value);
    ApiError::invalid_request(format!(
        "Invalid type for '{path}': expected {expected}, but got {got} instead."
    ))
    .param(path)
    .code("invalid_type")
}

/// The error for a value that is none of a few.
pub(super) fn invalid_value(path: &str, value: &str, allowed: &[&str]) -> ApiError {
    let quoted: Vec<String> = allowed.iter().map(|value| format!("'{value}'")).collect();
    let supported = match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
    };
    let message = format!("Invalid value: '{value}'. Supported values are: {supported}.");
    ApiError::invalid_request(message).param(path).code("invalid_value")
}

/// The error for a value that breaks a rule of its own.
pub(super) fn invalid(path: &str, what: &str, code: &str) -> ApiError {
    ApiError::invalid_request(format!("Invalid '{path}': {what}")).param(path).code(code)
}

pub(super) fn empty_array(path: &str) -> ApiError {
    let what = "empty array. Expected an array with minimum length 1, but got an empty array \
                instead.";
    invalid(path, what, "empty_array")
}

pub(super) fn check_length(path: &str, list: &[Value], most: usize) -> Result<(), ApiError> {
    if list.len() <= most {
        return Ok(());
    }
    let what = format!(
        "array too long. Expected an array with maximum length {most}, but got an array with \
         length {} instead.",
        list.len()
    );
    Err(invalid(path, &what, "array_above_max_length"))
}

/// Checks how long an identifier is.
pub(super) fn check_short(path: &str, text: &str, most: usize) -> Result<(), ApiError> {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    let what = format!(
        "string too long. Expected a string with maximum length {most}, but got a string with \
         length {length} instead."
    );
    Err(invalid(path, &what, "string_above_max_length"))
}

/// Checks a name: letters, digits, `_` and `-`, at most `most` of them.
pub(super) fn check_name(path: &str, name: &str, most: usize) -> Result<(), ApiError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        let what = "empty string. Expected a string with minimum length 1, but got an empty \
                    string instead.";
        return Err(invalid(path, what, "empty_string"));
    }
    if !name.chars().all(allowed) {
        let what = "string does not match pattern. Expected a string that matches the pattern \
                    '^[a-zA-Z0-9_-]+$'.";
        return Err(invalid(path, what, "invalid_value"));
    }
    check_short(path, name, most)
}

/// What a value is, in the vendor's words.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
