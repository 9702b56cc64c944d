//! Pages of a list that is there as a whole: a cursor names the last item of the page before.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use neuron_types::ToolError;

use crate::PaginatedList;

/// How many items a page of a list has, unless it is said otherwise. Many clients ask for the first page only.
pub(super) const PAGE_SIZE: usize = 1000;

/// What a client is told.
pub(crate) const INVALID_CURSOR: &str = "invalid cursor: begin anew without one";

/// A cursor that is none of ours, or whose item is gone.
#[derive(Debug)]
pub(crate) struct InvalidCursor;

/// The items of a page, and the cursor of the next one if there is one.
///
/// The cursor is the key of the last item and not a number, so that a list that changes between two pages
/// neither skips nor repeats anything.
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

/// A page of a list of the user's.
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
