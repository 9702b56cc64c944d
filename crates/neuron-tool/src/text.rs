//! Truncation of text at character boundaries.

use std::error::Error;
use std::fmt::{self, Write};

use neuron_types::{ContentItem, ToolError, UncertainEffect};

/// Returns the first `count` characters of a text. Returns the whole text if it is shorter.
pub(crate) fn first(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// Changes the text of an error. `of_source` returns a new text for an error of a tool's own, or `None` to keep the error.
///
/// An uncertain effect stays uncertain, because its call must not be repeated.
pub(crate) fn of_error(
    error: ToolError,
    change: impl Fn(String) -> String,
    of_source: impl FnOnce(&(dyn Error + 'static)) -> Option<String>,
) -> ToolError {
    let is_uncertain = error.is_uncertain();
    match error {
        ToolError::NotFound(text) => ToolError::NotFound(change(text)),
        ToolError::InvalidInput(text) => ToolError::InvalidInput(change(text)),
        ToolError::PermissionDenied(text) => ToolError::PermissionDenied(change(text)),
        ToolError::ModelRetry(text) => ToolError::ModelRetry(change(text)),
        ToolError::HookTerminated(text) => ToolError::HookTerminated(change(text)),
        ToolError::ExecutionFailed(source) => {
            ToolError::ExecutionFailed(match (of_source(&*source), is_uncertain) {
                (None, _) => source,
                (Some(text), true) => Box::new(UncertainEffect(text)),
                (Some(text), false) => text.into(),
            })
        }
        other => other,
    }
}

/// Returns `true` if the model receives the item as text of any length. These items are texts, text resources and
/// links. The model receives any other item as binary content or as a short description.
pub(crate) fn is_text(item: &ContentItem) -> bool {
    match item {
        ContentItem::Text(_) | ContentItem::ResourceLink { .. } => true,
        ContentItem::Resource { resource } => resource.text.is_some() || resource.blob.is_none(),
        _ => false,
    }
}

/// Counts the characters of an item in its `Display` form, which the model receives.
pub(crate) fn characters(item: &ContentItem) -> usize {
    struct Count(usize);

    impl fmt::Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.chars().count();
            Ok(())
        }
    }

    let mut count = Count(0);
    // Writing to the counter cannot fail.
    write!(count, "{item}").ok();
    count.0
}

/// Counts the characters of all text items of an output together.
pub(crate) fn characters_of(content: &[ContentItem]) -> usize {
    content.iter().filter(|item| is_text(item)).map(characters).sum()
}

/// Omits the middle of a text that has more than `count` characters. The result has about `count` characters.
///
/// Both ends are kept. In a validation error, the start contains the invalid value, and the end contains the
/// expectation.
pub(crate) fn shorten(text: &str, count: usize) -> String {
    let total = text.chars().count();
    if total <= count {
        return text.to_owned();
    }
    let half = count / 2;
    let end = text.char_indices().nth(total - half).map_or(text.len(), |(start, _)| start);
    format!("{}…{}", first(text, half), text.get(end..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_cuts_at_character_boundaries() {
        let text = "aä€𝄞";
        for (count, expected) in [(0, ""), (1, "a"), (2, "aä"), (3, "aä€"), (4, text), (9, text)]
        {
            assert_eq!(first(text, count), expected);
        }
    }

    #[test]
    fn shorten_keeps_both_ends() {
        assert_eq!(shorten("ä€𝄞ä€𝄞", 6), "ä€𝄞ä€𝄞");
        assert_eq!(shorten("ä€𝄞ä€𝄞", 5), "ä€…€𝄞");
        assert_eq!(shorten("ä€𝄞ä€𝄞", 1), "…");
        assert_eq!(shorten("ä€𝄞ä€𝄞", 0), "…");
    }
}
