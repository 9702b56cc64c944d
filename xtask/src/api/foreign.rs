//! Lists the items of other projects that occur in the public API of a crate. A new major version of such a project is
//! a breaking change of the crate.

use std::collections::BTreeSet;

use super::source::SourceItem;
use super::surface;

/// Returns the paths of the foreign items in a crate's public API, such as `http::HeaderMap`.
///
/// `dependencies` are the names of the crates of other projects on which the crate depends.
pub(super) fn list(
    crate_name: &str,
    items: &[SourceItem],
    dependencies: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (source, line) in surface::lines(crate_name, items) {
        for path in line.text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            let path = path.trim_matches(':');
            let (first, rest) = path.split_once("::").unwrap_or((path, ""));
            let origin = source.imports.get(first).map_or(first, String::as_str);
            let crate_of_origin = origin.split("::").next().unwrap_or_default();
            // A single name may also be a module, a field or an argument, so only imported names count.
            if dependencies.contains(crate_of_origin) && (origin != first || !rest.is_empty()) {
                let separator = if rest.is_empty() { "" } else { "::" };
                found.insert(format!("{origin}{separator}{rest}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::from_text;
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        let dependencies = ["http", "serde_json"].map(str::to_owned).into();
        list("c", &from_text(text), &dependencies).into_iter().collect()
    }

    #[test]
    fn imported_renamed_and_qualified_items_are_listed_with_their_path() {
        let text = "
            use http::{HeaderMap, Uri as Address, header};
            pub fn f(headers: HeaderMap, address: &Address) -> Result<header::Entry, serde_json::Error> {}
        ";
        let expected = ["http::HeaderMap", "http::Uri", "http::header::Entry", "serde_json::Error"];
        assert_eq!(listed(text), expected);
    }

    #[test]
    fn re_exports_and_implemented_traits_are_listed() {
        let text = "
            use serde_json::Value;
            pub use http::StatusCode;
            pub struct A;
            impl From<Value> for A {}
        ";
        assert_eq!(listed(text), ["http::StatusCode", "serde_json::Value"]);
    }

    #[test]
    fn private_items_own_items_and_arguments_are_not_listed() {
        let text = "
            use http::HeaderMap;
            use crate::Value;
            pub struct Value { headers: HeaderMap }
            fn private(headers: HeaderMap) {}
            pub fn public(http: Value, std: std::string::String) {}
        ";
        assert_eq!(listed(text), [""; 0]);
    }
}
