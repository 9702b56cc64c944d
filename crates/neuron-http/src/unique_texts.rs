//! Texts of which no two are equal.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Texts of which no two are equal, such as the ids of all tool calls in a request. A text that repeats gets a number.
///
/// # Example
///
/// ```
/// use neuron_http::UniqueTexts;
///
/// let mut texts = UniqueTexts::new(6);
/// let given = ["look", "look", "look", "search", "search"].map(|text| texts.give(text.into()));
/// assert_eq!(given, ["look", "look_2", "look_3", "search", "sear_2"]);
/// ```
#[derive(Debug)]
pub struct UniqueTexts<'a> {
    /// Maximum number of characters of a text with a number.
    most: usize,
    given: HashSet<Cow<'a, str>>,
    /// Last number that was appended to each repeated text. A search from the first number would take longer with each
    /// repetition.
    numbers: HashMap<Cow<'a, str>, usize>,
}

impl<'a> UniqueTexts<'a> {
    /// Creates an empty set. A text with a number has at most `most` characters.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::with_capacity(most, 0)
    }

    /// Creates an empty set with room for `texts` texts. A text with a number has at most `most` characters.
    #[must_use]
    pub fn with_capacity(most: usize, texts: usize) -> Self {
        Self { most, given: HashSet::with_capacity(texts), numbers: HashMap::new() }
    }

    /// Adds a text without a change, even if it repeats. Returns `false` if it repeats.
    pub fn insert(&mut self, text: Cow<'a, str>) -> bool {
        self.given.insert(text)
    }

    /// Adds the id of a tool call in a response, and returns it with [`give`](Self::give). `generate` returns the id of
    /// a call that has an empty id, because its server sent none.
    pub fn give_id(&mut self, id: &str, generate: impl FnOnce() -> String) -> String {
        let id = if id.is_empty() { generate() } else { id.to_owned() };
        self.give(id.into()).into_owned()
    }

    /// Adds a text, and returns it. If the set has the text, returns it with the first number from 2 that makes it
    /// unique. The text is truncated if it would be too long with the number.
    pub fn give(&mut self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.given.insert(text.clone()) {
            return text;
        }
        let number = self.numbers.entry(text.clone()).or_insert(1);
        loop {
            *number += 1;
            let end = format!("_{number}");
            let kept = text.chars().take(self.most.saturating_sub(end.len()));
            let numbered: Cow<'a, str> = kept.chain(end.chars()).collect::<String>().into();
            if self.given.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// An empty set whose texts have no maximum length.
impl Default for UniqueTexts<'_> {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_id_is_generated_and_numbered_like_any_other() {
        let mut texts = UniqueTexts::default();
        let given = ["a", "", "a", "", "new"].map(|id| texts.give_id(id, || "new".to_owned()));
        assert_eq!(given, ["a", "new", "a_2", "new_2", "new_3"]);
    }

    #[test]
    fn repeated_text_gets_the_first_free_number_and_stays_short() {
        let long = "x".repeat(64);
        let mut texts = UniqueTexts::new(64);
        for text in [long.as_str(), "a", "a_2"] {
            assert!(texts.insert(text.into()));
        }
        assert!(!texts.insert("a".into()));
        assert_eq!(texts.give("b".into()), "b");
        assert_eq!(texts.give("a".into()), "a_3");
        let mut given = HashSet::new();
        for _ in 0..20 {
            let next = texts.give(long.as_str().into());
            assert!(next.len() == 64 && next != long);
            assert!(given.insert(next));
        }
    }
}
