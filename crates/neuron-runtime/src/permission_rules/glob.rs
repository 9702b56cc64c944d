//! A text with `*` for anything.

/// A text in which `*` matches any number of characters. `\*` is a literal star and `\\` a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// Literal texts between the stars, at least one.
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

    /// A pattern that matches this text alone.
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
            // The first place leaves the most for the parts behind it.
            let Some((_, behind)) = text.split_once(part.as_str()) else {
                return false;
            };
            text = behind;
        }
        text.ends_with(last.as_str())
    }

    /// The same in small letters.
    pub(super) fn to_lowercase(&self) -> Self {
        Self { parts: self.parts.iter().map(|part| part.to_lowercase()).collect() }
    }
}
