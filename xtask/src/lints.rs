//! Rules over the whole workspace that no other tool checks, as tests.

mod alone;
mod arrows;
mod listings;
mod msrv;
mod sources;
mod trees;

/// Fails with all problems at once.
#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
