//! What a window keeps, by table and by property.

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
fn the_last_messages_stay() {
    check("", 3, "");
    check("s", 3, "s");
    check("suauaua", 2, "s....ua");
    check("uuuuuuuuuu", 3, ".......uuu");
    check("suasuaua", 4, "s..suaua");
    check("ua", 9, "ua");
}

#[test]
fn calls_and_results_stay_together() {
    check("ucrcra", 4, "u..cra");
    check("ucrcra", 3, "u....a");
    check("ucrcra", 2, "u....a");
    check("ucrcrcr", 4, "u....cr");
    check("ucrcrcr", 3, "u....cr");
}

#[test]
fn the_newest_exchange_stays_even_if_it_is_too_large() {
    check("ucrcr", 1, "u..cr");
    check("ucrcr", 0, "u..cr");
    check("uaua", 1, "..ua");
}

#[test]
fn the_message_that_started_the_run_stays_and_older_runs_go() {
    check("uauacrcrcr", 4, "..u.....cr");
    check("uaucrcrcrcr", 5, "..u....crcr");
    check("uaucrcrcrcr", 3, "..u......cr");
}

#[test]
fn what_remains_begins_with_the_user() {
    check("uauau", 2, "....u");
    check("uauau", 3, "..uau");
    check("ucrauau", 5, "....uau");
}

/// A summary was dropped although it stood inside the window.
#[test]
fn what_remains_may_begin_with_a_summary() {
    check("uauzaua", 4, "...zaua");
    check("uauzaua", 3, ".....ua");
    check("uzAuauau", 3, ".zA..uau");
}

#[test]
fn a_conversation_that_begins_with_the_assistant_keeps_that_only_whole() {
    check("aua", 3, "aua");
    check("auaua", 4, ".uaua");
    check("aaa", 1, "aaa");
}

#[test]
fn a_message_in_the_middle_of_a_run_does_not_replace_its_goal() {
    check("uaucrcrucrcr", 4, "..u..cru..cr");
    check("ucrucrucr", 1, "u...crucr");
}

#[test]
fn what_is_pinned_stays_and_is_not_counted() {
    check("UaCrauaua", 2, "U.Cr..aua");
    check("suauAuaua", 2, "s..uA..ua");
    check("suauaUaua", 2, "s....U.ua");
    check("SuaUa", 1, "S..Ua");
}

#[test]
fn a_low_water_mark_makes_room_for_many_turns() {
    let messages = history("suauauaua");
    let tokens = |count: usize| 5 * count;
    let kept = |strategy: SlidingWindowStrategy| {
        strategy.compacted(messages.clone(), &Corrected::plain(&strategy.counter)).len()
    };
    let strategy = SlidingWindowStrategy::new(8, tokens(8));
    assert_eq!(strategy.token_estimate(&messages), tokens(9));
    assert_eq!(kept(strategy.clone()), 9, "the window alone counts");
    assert_eq!(kept(strategy.clone().with_low_water_mark(tokens(5))), 5);
    // Nothing more can go: the system message, the goal and the newest.
    assert_eq!(kept(strategy.with_low_water_mark(0)), 3);
}

#[tokio::test]
async fn a_low_water_mark_counts_what_is_known_of_the_request() {
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
    fn what_stays_in_a_window_stays_in_a_larger_one(letters in letters(), window in 0_usize..12) {
        let messages = history(&letters);
        let (smaller, larger) = (choose(&messages, window), choose(&messages, window + 1));
        prop_assert!(smaller.iter().zip(larger).all(|(smaller, larger)| !smaller || larger));
    }
}
