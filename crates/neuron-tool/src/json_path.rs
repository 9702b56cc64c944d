//! JSON paths such as `$.items[0].name`.

use std::fmt::{self, Write};

/// A JSON path such as `$.items[0].name`.
#[derive(Debug, Clone)]
pub(crate) struct JsonPath(String);

/// Returns `$`, the path of the whole value.
impl Default for JsonPath {
    fn default() -> Self {
        Self("$".into())
    }
}

// The results of `write!` are ignored, because writing to a string cannot fail.
impl JsonPath {
    /// Appends the index of an array item.
    pub(crate) fn push_index(&mut self, index: usize) {
        write!(self.0, "[{index}]").ok();
    }

    /// Appends the name of a field. A name with special characters is quoted, as in `["b c"]`.
    pub(crate) fn push_field(&mut self, name: &str) {
        let is_plain = |character: char| character.is_alphanumeric() || character == '_';
        match !name.is_empty() && name.chars().all(is_plain) {
            true => write!(self.0, ".{name}").ok(),
            false => write!(self.0, "[{name:?}]").ok(),
        };
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_special_characters_are_quoted() {
        let mut path = JsonPath::default();
        assert_eq!(path.to_string(), "$");
        path.push_field("a_1");
        path.push_index(0);
        path.push_field("b c");
        path.push_field("");
        path.push_field("ä");
        assert_eq!(path.to_string(), r#"$.a_1[0]["b c"][""].ä"#);
    }
}
