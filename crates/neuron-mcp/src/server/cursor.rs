//! Pagination of complete lists. A cursor names the last item of the previous page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use neuron_types::ToolError;

use crate::PaginatedList;

/// Default number of items on a page. It is large, because many clients request only the first page.
pub(super) const PAGE_SIZE: usize = 1000;

/// Error message for a client.
pub(crate) const INVALID_CURSOR: &str = "invalid cursor: begin anew without one";

/// The cursor is malformed, or its item is gone.
#[derive(Debug)]
pub(crate) struct InvalidCursor;

/// Returns the items of a page, and the cursor of the next page if any.
///
/// The cursor is the key of the last item, not an index, so a list that changes between two pages skips and repeats no
/// item.
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

/// Returns a page of a user's list.
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
    fn every_item_is_on_one_page() {
        assert_eq!(all(&[], 2), [Vec::<String>::new()]);
        assert_eq!(all(&["a", "b"], 2), [vec!["a", "b"]]);
        assert_eq!(all(&["a", "b", "c"], 2), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(all(&["a", "b", "c"], 1), [vec!["a"], vec!["b"], vec!["c"]]);
    }

    #[test]
    fn a_cursor_that_is_none_is_refused() {
        for cursor in ["", "YQ=", "!", "eA", "ÿ"] {
            assert!(page(&["a"], |item| item, Some(cursor), 1).is_err(), "{cursor}");
        }
    }

    #[test]
    fn a_list_that_grows_in_front_skips_nothing() {
        let (_, next) = page(&["a", "b", "c"], |item| item, None, 1).unwrap();
        let (rest, _) = page(&["0", "a", "b", "c"], |item| item, next.as_deref(), 9).unwrap();
        assert_eq!(rest, ["b", "c"]);
    }
}
