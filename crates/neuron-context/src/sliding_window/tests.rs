//! Table tests and property tests of the messages that a window keeps.

use neuron_types::CompletionRequest;
use neuron_types::transcript;
use proptest::prelude::*;

use super::*;
use crate::test_history::{history, letters};

#[track_caller]
fn check(before: &str, window: usize, after: &str) {
    let kept: String = before
        .chars()
        .zip(choose(&history(before), window))
        .map(|(letter, keep)| if keep { letter } else { '.' })
        .collect();
    assert_eq!(kept, after);
}

#[test]
fn last_messages_are_kept() {
    check("", 3, "");
    check("s", 3, "s");
    check("suauaua", 2, "s....ua");
    check("uuuuuuuuuu", 3, ".......uuu");
    check("suasuaua", 4, "s..suaua");
    check("ua", 9, "ua");
}

#[test]
fn calls_and_results_are_kept_together() {
    check("ucrcra", 4, "u..cra");
    check("ucrcra", 3, "u....a");
    check("ucrcra", 2, "u....a");
    check("ucrcrcr", 4, "u....cr");
    check("ucrcrcr", 3, "u....cr");
}

#[test]
fn newest_exchange_is_kept_even_if_too_large() {
    check("ucrcr", 1, "u..cr");
    check("ucrcr", 0, "u..cr");
    check("uaua", 1, "..ua");
}

#[test]
fn goal_of_the_run_is_kept_and_older_runs_are_dropped() {
    check("uauacrcrcr", 4, "..u.....cr");
    check("uaucrcrcrcr", 5, "..u....crcr");
    check("uaucrcrcrcr", 3, "..u......cr");
}

#[test]
fn result_starts_with_the_user() {
    check("uauau", 2, "....u");
    check("uauau", 3, "..uau");
    check("ucrauau", 5, "....uau");
}

/// Checks that a summary inside the window is kept, even as the first message.
#[test]
fn result_may_start_with_a_summary() {
    check("uauzaua", 4, "...zaua");
    check("uauzaua", 3, ".....ua");
    check("uzAuauau", 3, ".zA..uau");
}

#[test]
fn leading_assistant_message_is_only_kept_with_the_whole_conversation() {
    check("aua", 3, "aua");
    check("auaua", 4, ".uaua");
    check("aaa", 1, "aaa");
}

#[test]
fn message_during_a_run_does_not_replace_its_goal() {
    check("uaucrcrucrcr", 4, "..u..cru..cr");
    check("ucrucrucr", 1, "u...crucr");
}

#[test]
fn pinned_messages_are_kept_and_not_counted() {
    check("UaCrauaua", 2, "U.Cr..aua");
    check("suauAuaua", 2, "s..uA..ua");
    check("suauaUaua", 2, "s....U.ua");
    check("SuaUa", 1, "S..Ua");
}

#[test]
fn low_water_mark_keeps_fewer_messages() {
    let messages = history("suauauaua");
    let tokens = |count: usize| 5 * count;
    let kept = |strategy: SlidingWindowStrategy| {
        strategy
            .compacted(messages.clone(), &CalibratedEstimate::uncalibrated(&strategy.counter))
            .len()
    };
    let strategy = SlidingWindowStrategy::new(8, tokens(8));
    assert_eq!(strategy.token_estimate(&messages), tokens(9));
    assert_eq!(kept(strategy.clone()), 9, "the window alone counts");
    assert_eq!(kept(strategy.clone().with_low_water_mark(tokens(5))), 5);
    // The system message, the goal and the newest message cannot be dropped.
    assert_eq!(kept(strategy.with_low_water_mark(0)), 3);
}

#[tokio::test]
async fn low_water_mark_uses_the_known_size_of_the_request() {
    let strategy = SlidingWindowStrategy::new(8, 40).with_low_water_mark(30);
    let request = CompletionRequest { messages: history("uauauaua"), ..Default::default() };
    let kept = async |known| strategy.compact_request(request.view(), known).await.unwrap().0.len();
    assert_eq!(kept(40).await, 6);
    assert_eq!(kept(80).await, 2, "it takes twice as much as estimated");
}

proptest! {
    #[test]
    fn every_window_keeps_the_history_valid(letters in letters(), window in 0_usize..12) {
        let before = history(&letters);
        prop_assert_eq!(transcript::validate(&before), Ok(()));
        let keep = choose(&before, window);
        let kept: Vec<_> = before
            .iter()
            .zip(&keep)
            .filter(|(_, keep)| **keep)
            .map(|(message, _)| message.clone())
            .collect();
        prop_assert_eq!(transcript::validate(&kept), Ok(()));
        prop_assert!(choose(&kept, window).iter().all(|keep| *keep), "a fixed point");

        let goal = before.iter().rposition(is_plain_user).unwrap();
        prop_assert!(keep[goal], "the goal stays");
        for (message, keep) in before.iter().zip(&keep) {
            prop_assert!(*keep || message.role != Role::System, "system messages stay");
            prop_assert!(*keep || !message.is_pinned(), "pinned messages stay");
        }
        if !before.iter().any(Message::is_pinned) {
            let count = kept.iter().filter(|message| message.role != Role::System).count();
            prop_assert!(count <= (window + 2).max(6), "the window, the goals and one exchange");
        }
    }
    #[test]
    fn larger_window_keeps_the_same_messages(letters in letters(), window in 0_usize..12) {
        let messages = history(&letters);
        let (smaller, larger) = (choose(&messages, window), choose(&messages, window + 1));
        prop_assert!(smaller.iter().zip(larger).all(|(smaller, larger)| !smaller || larger));
    }
}
