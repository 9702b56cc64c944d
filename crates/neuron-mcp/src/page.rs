//! One page of a list.

/// One page of a list that a server gives in pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PaginatedList<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last one. Opaque: it means nothing to anybody but the server.
    pub next_cursor: Option<String>,
}

impl<T> PaginatedList<T> {
    /// All there is, on one page.
    pub fn complete(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
