//! Text patterns with `*` as the wildcard.

/// A text pattern in which `*` matches any number of characters, including none. `\*` matches a star, and `\\` matches
/// a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// The literal texts between the stars. Never empty, because a pattern without a star is one literal text.
    parts: Vec<String>,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut part = String::new();
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '*' => parts.push(std::mem::take(&mut part)),
                '\\' => {
                    let escaped = characters.next_if(|next| matches!(next, '*' | '\\'));
                    part.push(escaped.unwrap_or('\\'));
                }
                character => part.push(character),
            }
        }
        parts.push(part);
        Self { parts }
    }

    /// Creates a pattern that matches only this text. A star in `text` is literal.
    pub(super) fn of(text: &str) -> Self {
        Self { parts: vec![text.to_owned()] }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, rest @ ..] = &self.parts[..] else {
            return false;
        };
        let Some(mut text) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        let [middle @ .., last] = rest else {
            return text.is_empty();
        };
        for part in middle {
            // The first occurrence leaves the longest remainder for the later parts.
            let Some((_, behind)) = text.split_once(part.as_str()) else {
                return false;
            };
            text = behind;
        }
        text.ends_with(last.as_str())
    }

    /// Returns the pattern in lower case, for a comparison that ignores case.
    pub(super) fn to_lowercase(&self) -> Self {
        Self { parts: self.parts.iter().map(|part| part.to_lowercase()).collect() }
    }
}
