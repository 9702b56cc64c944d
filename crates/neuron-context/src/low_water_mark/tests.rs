//! Tests of the number of messages that fit into a low-water mark.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::TokenCounter;

/// Returns the flags for keeping the first message and the newest `count` messages.
fn newest(messages: &[Message], count: usize) -> Vec<bool> {
    let first_kept = messages.len().saturating_sub(count);
    (0..messages.len()).map(|index| index == 0 || index >= first_kept).collect()
}

#[test]
fn search_is_logarithmic() {
    let messages = vec![Message::user("1234"); 10_000];
    let counter = TokenCounter::new();
    let choices = Cell::new(0);
    let choose = |messages: &[Message], count| {
        choices.set(choices.get() + 1);
        newest(messages, count)
    };
    let size = CalibratedEstimate::uncalibrated(&counter);
    let keep = choose_within(Some(500), usize::MAX, &messages, &size, choose);
    assert_eq!(keep.iter().filter(|keep| **keep).count(), 100);
    assert!(choices.get() < 20, "{choices:?}");
}

proptest! {
    #[test]
    fn largest_number_that_fits_is_kept(
        lengths in prop::collection::vec(0_usize..100, 0..20),
        most in prop_oneof![0_usize..25, Just(usize::MAX)],
        mark in prop::option::of(prop_oneof![0_usize..400, Just(usize::MAX)]),
    ) {
        let messages: Vec<_> = lengths.iter().map(|n| Message::user("x".repeat(*n))).collect();
        let counter = TokenCounter::new();
        let size = CalibratedEstimate::uncalibrated(&counter);
        let tokens = |keep: &[bool]| {
            let kept = messages.iter().zip(keep).filter(|(_, keep)| **keep);
            size.tokens(kept.map(|(message, _)| message))
        };
        let fits = |count: &usize| mark.is_none_or(|mark| tokens(&newest(&messages, *count)) <= mark);
        let most_that_fits = (0..=most.min(messages.len())).rev().find(fits).unwrap_or(0);
        let keep = choose_within(mark, most, &messages, &size, newest);
        prop_assert_eq!(keep, newest(&messages, most_that_fits));
    }
}
