//! Names of tools. The API rejects a name that begins with a digit or `-`, which other vendors accept.
//!
//! <https://ai.google.dev/api/caching#FunctionDeclaration>

use std::borrow::Cow;

use neuron_http::ToolNames;

/// Maximum number of characters, which are ASCII. Some models accept 128.
const MAX_CHARS: usize = 64;

/// The names that the API accepts.
pub(crate) const NAMES: ToolNames = ToolNames::new(accepted, MAX_CHARS);

/// Returns a name with `_` in place of each character that the API rejects, and with `_` before an invalid first
/// character. The name is cut to the maximum length.
fn accepted(name: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !is_allowed(c);
    if name.is_empty() {
        return "unnamed".into();
    }
    let start = if name.starts_with(is_first) { "" } else { "_" };
    if start.is_empty() && name.len() <= MAX_CHARS && name.chars().all(is_allowed) {
        return name.into();
    }
    let replaced = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    start.chars().chain(replaced).take(MAX_CHARS).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_names_are_replaced() {
        for (name, sent) in [
            ("look_up", "look_up"),
            ("_a.b:c-1", "_a.b:c-1"),
            ("1mcp_search", "_1mcp_search"),
            ("-a", "_-a"),
            (".a", "_.a"),
            ("é b", "__b"),
            ("fs/read", "fs_read"),
            ("", "unnamed"),
        ] {
            assert_eq!(accepted(name), sent);
            assert_eq!(accepted(sent), sent);
        }
        let long = "1".repeat(64);
        assert_eq!(accepted(&long), format!("_{}", &long[..63]));
        let longest = "a".repeat(64);
        assert_eq!(accepted(&longest), longest);
        assert_eq!(accepted(&"a".repeat(65)), longest);
    }
}
