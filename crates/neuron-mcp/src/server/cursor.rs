//! Pagination of lists in memory. The cursor of the next page contains the key of the last item on this page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use neuron_types::ToolError;

use crate::PaginatedList;

/// Default number of items on a page. The number is large because many clients request only the first page.
pub(super) const PAGE_SIZE: usize = 1000;

/// Error text for a client that sends an invalid cursor.
pub(crate) const INVALID_CURSOR: &str = "invalid cursor: request the first page, without a cursor";

/// Error for a cursor that is malformed or whose item is no longer in the list.
#[derive(Debug)]
pub(crate) struct InvalidCursor;

/// Returns the items of a page, and the cursor of the next page. `cursor` is `None` for the first page. The returned
/// cursor is `None` on the last page.
///
/// A cursor contains the key of the last item on the page. With an index instead, items that are added or removed
/// between two requests would shift the next page.
///
/// # Errors
///
/// Returns [`InvalidCursor`] if the cursor is malformed or its item is no longer in the list.
pub(crate) fn page<'a, T>(
    items: &'a [T],
    key: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    size: usize,
) -> Result<(&'a [T], Option<String>), InvalidCursor> {
    let start = match cursor {
        None => 0,
        Some(cursor) => {
            let last = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
            let position = items.iter().position(|item| key(item).as_bytes() == last);
            position.ok_or(InvalidCursor)? + 1
        }
    };
    let rest = items.get(start..).unwrap_or_default();
    match rest.split_at_checked(size) {
        Some((page, after)) if !after.is_empty() => {
            let next = page.last().map(|last| URL_SAFE_NO_PAD.encode(key(last)));
            Ok((page, next))
        }
        _ => Ok((rest, None)),
    }
}

/// Returns a page with at most `size` of the `items`. `key` returns the unique key of an item. `cursor` is `None` for
/// the first page.
///
/// # Errors
///
/// Returns [`ToolError::InvalidInput`] if the cursor is invalid.
pub(crate) fn list<T: Clone>(
    items: &[T],
    key: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    size: usize,
) -> Result<PaginatedList<T>, ToolError> {
    let (page, next_cursor) = page(items, key, cursor, size)
        .map_err(|InvalidCursor| ToolError::InvalidInput(INVALID_CURSOR.to_owned()))?;
    Ok(PaginatedList { items: page.to_vec(), next_cursor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(items: &[&str], size: usize) -> Vec<Vec<String>> {
        let mut pages = vec![];
        let mut cursor = None;
        loop {
            let (items, next) = page(items, |item| item, cursor.as_deref(), size).unwrap();
            pages.push(items.iter().map(ToString::to_string).collect());
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn pages_contain_every_item_once() {
        assert_eq!(all(&[], 2), [Vec::<String>::new()]);
        assert_eq!(all(&["a", "b"], 2), [vec!["a", "b"]]);
        assert_eq!(all(&["a", "b", "c"], 2), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(all(&["a", "b", "c"], 1), [vec!["a"], vec!["b"], vec!["c"]]);
    }

    #[test]
    fn malformed_cursor_is_refused() {
        for cursor in ["", "YQ=", "!", "eA", "ÿ"] {
            assert!(page(&["a"], |item| item, Some(cursor), 1).is_err(), "{cursor}");
        }
    }

    #[test]
    fn item_inserted_before_the_cursor_does_not_shift_the_next_page() {
        let (_, next) = page(&["a", "b", "c"], |item| item, None, 1).unwrap();
        let (rest, _) = page(&["0", "a", "b", "c"], |item| item, next.as_deref(), 9).unwrap();
        assert_eq!(rest, ["b", "c"]);
    }
}
