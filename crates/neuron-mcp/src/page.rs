//! A page of a list.

/// A page of a list that a server returns in pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PaginatedList<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// Cursor of the next page. `None` on the last page. The client sends the cursor back unchanged to request the next
    /// page.
    pub next_cursor: Option<String>,
}

impl<T> PaginatedList<T> {
    /// Creates a list that has all items on a single page.
    pub fn complete(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
