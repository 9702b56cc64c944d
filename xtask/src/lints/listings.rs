//! Checks that the committed listings of the public API, the `api.txt` files, match the current source.

use std::collections::BTreeSet;

use crate::api;

/// Maximum number of lines of a difference in the error.
const SHOWN: usize = 20;

#[test]
fn listings_match_the_source() {
    let mut report = Vec::new();
    for listing in api::listings().unwrap() {
        let difference = difference(&listing.committed(), &listing.text);
        if !difference.is_empty() {
            report.push(format!("{}:", listing.file.display()));
            let rest = difference.len().saturating_sub(SHOWN);
            report.extend(difference.into_iter().take(SHOWN));
            if rest > 0 {
                report.push(format!("… and {rest} lines more"));
            }
        }
    }
    assert!(
        report.is_empty(),
        "{}\nrun `cargo xtask api` if the change of the public surface is intended",
        report.join("\n")
    );
}

/// Returns the removed lines with the prefix `-` and the added lines with the prefix `+`. If only the order of the
/// lines differs, returns a message.
fn difference(committed: &str, present: &str) -> Vec<String> {
    let [old, new] = [committed, present].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    let added = new.difference(&old).map(|line| format!("+ {line}"));
    let mut lines: Vec<String> = gone.chain(added).collect();
    if lines.is_empty() && committed != present {
        lines.push("the same lines in another order".to_owned());
    }
    lines
}

#[test]
fn difference_lists_removed_and_added_lines() {
    assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    assert_eq!(difference("a\nb\n", "b\na\n"), ["the same lines in another order"]);
    assert_eq!(difference("", "a\n"), ["+ a"]);
    assert!(difference("a\n", "a\n").is_empty());
}
