//! Ids of tool calls and names of tools, in the characters that the API accepts.
//!
//! A conversation may begin with another vendor and continue here, and other vendors accept other characters.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;

/// Maximum length of an id or a name in characters, which are ASCII.
const MAX_CHARS: usize = 64;

/// Returns `true` if the API accepts an id of a call: `[a-zA-Z0-9_.:-]{1,64}`.
pub(crate) fn is_id(text: &str) -> bool {
    fits(text, is_in_ids)
}

/// Returns `true` if the API accepts a name: `[a-zA-Z0-9_-]{1,64}`.
pub(crate) fn is_name(text: &str) -> bool {
    fits(text, is_in_names)
}

/// Returns an id with `_` in place of each character that the API rejects, cut to the maximum length.
pub(crate) fn id(text: &str) -> Cow<'_, str> {
    fitted(text, "call", is_in_ids)
}

/// Returns a name with `_` in place of each character that the API rejects, cut to the maximum length.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    fitted(text, "unnamed", is_in_names)
}

/// Returns `text`, or `text` with a number if it is taken. The result has at most the maximum length, and is not yet in
/// `taken`. `text` must be a valid id or name.
pub(crate) fn unique<'a, T>(text: Cow<'a, str>, taken: &HashSet<T>) -> Cow<'a, str>
where
    T: std::borrow::Borrow<str> + Eq + Hash,
{
    if !taken.contains(text.as_ref()) {
        return text;
    }
    // Among the first numbers, one more than there are taken texts is free.
    let free =
        (2..).map(|number| numbered(&text, number)).find(|text| !taken.contains(text.as_str()));
    free.map_or(text, Cow::Owned)
}

/// Appends a number, and cuts the text so that the number fits.
fn numbered(text: &str, number: usize) -> String {
    let number = format!("_{number}");
    let kept = text.chars().take(MAX_CHARS.saturating_sub(number.len()));
    kept.chain(number.chars()).collect()
}

fn is_in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_in_ids(c: char) -> bool {
    is_in_names(c) || c == '.' || c == ':'
}

fn fits(text: &str, is_allowed: fn(char) -> bool) -> bool {
    (1..=MAX_CHARS).contains(&text.len()) && text.chars().all(is_allowed)
}

fn fitted<'a>(text: &'a str, empty: &'static str, is_allowed: fn(char) -> bool) -> Cow<'a, str> {
    if fits(text, is_allowed) {
        return text.into();
    }
    if text.is_empty() {
        return empty.into();
    }
    let replaced = text.chars().map(|c| if is_allowed(c) { c } else { '_' });
    replaced.take(MAX_CHARS).collect::<String>().into()
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

    #[test]
    fn taken_text_gets_a_number_and_stays_short() {
        let long = "x".repeat(64);
        let mut taken: HashSet<String> = [long.clone(), "a".into(), "a_2".into()].into();
        assert_eq!(unique("b".into(), &taken), "b");
        assert_eq!(unique("a".into(), &taken), "a_3");
        for _ in 0..20 {
            let next = unique(long.as_str().into(), &taken).into_owned();
            assert!(is_name(&next));
            assert!(taken.insert(next));
        }
    }
}
