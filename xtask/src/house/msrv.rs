//! No dependency asks for a newer compiler than we do.

use super::assert_none;
use crate::workspace;

/// Packages that may ask for more, each with a reason.
const EXCEPTIONS: &[&str] = &[];

#[test]
fn no_dependency_needs_a_newer_compiler() {
    let ours = env!("CARGO_PKG_RUST_VERSION");
    let mut problems = Vec::new();
    for package in workspace::graph().unwrap().packages {
        if let Some(theirs) = &package.rust_version
            && parse(theirs) > parse(ours)
            && !EXCEPTIONS.contains(&package.name.as_str())
        {
            let (name, version) = (&package.name, &package.version);
            problems.push(format!("{name} {version} needs Rust {theirs}, we promise {ours}"));
        }
    }
    assert_none(&problems);
}

/// A version as numbers that compare; `1.90` is `1.90.0`.
fn parse(version: &str) -> [u32; 3] {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[test]
fn versions_compare_by_number() {
    assert!(parse("1.90") == parse("1.90.0"));
    assert!(parse("1.100") > parse("1.90.1"));
    assert!(parse("1.9") < parse("1.90"));
}
