//! Texts of a peer in the form in which they are shown.

/// Maximum number of characters of a peer's text in an error.
const SHOWN: usize = 500;

/// Returns the first [`SHOWN`] characters of a text from a peer, because a peer may respond with a whole page.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
