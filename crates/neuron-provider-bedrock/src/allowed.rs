//! Ids of tool calls and names of tools, in the characters that the API accepts.
//!
//! A conversation may begin with another vendor and continue here, and other vendors accept other characters.

use std::borrow::Cow;

use neuron_http::{ToolNames, ascii_name};

/// Maximum length of an id or a name in characters, which are ASCII.
pub(crate) const MAX_CHARS: usize = 64;

/// The names of tools that the API accepts.
pub(crate) const NAMES: ToolNames = ToolNames::new(name, MAX_CHARS);

/// Returns `true` if the API accepts an id of a call: `[a-zA-Z0-9_.:-]{1,64}`.
pub(crate) fn is_id(text: &str) -> bool {
    id(text) == text
}

/// Returns `true` if the API accepts a name: `[a-zA-Z0-9_-]{1,64}`.
pub(crate) fn is_name(text: &str) -> bool {
    name(text) == text
}

/// Returns an id with `_` in place of each character that the API rejects, cut to the maximum length.
pub(crate) fn id(text: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if text.is_empty() {
        return "call".into();
    }
    if text.len() <= MAX_CHARS && text.chars().all(is_allowed) {
        return text.into();
    }
    let replaced = text.chars().map(|c| if is_allowed(c) { c } else { '_' });
    replaced.take(MAX_CHARS).collect::<String>().into()
}

/// Returns a name with `_` in place of each character that the API rejects, cut to the maximum length.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    ascii_name(text, MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_characters_are_replaced() {
        for (text, as_id, as_name) in [
            ("tooluse_x-1", "tooluse_x-1", "tooluse_x-1"),
            ("functions.look:0", "functions.look:0", "functions_look_0"),
            ("a/b é", "a_b__", "a_b__"),
            ("", "call", "unnamed"),
        ] {
            assert_eq!((&*id(text), &*name(text)), (as_id, as_name));
        }
        let long = "x".repeat(65);
        assert_eq!((id(&long).len(), name(&long).len()), (64, 64));
        assert!(!is_id(&long) && is_id(&long[..64]) && !is_name("") && !is_name("a.b"));
    }
}
