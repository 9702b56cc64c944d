//! What a window keeps, by table and by property.

use neuron_types::{ContentBlock, ContentItem, transcript};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Builds a history from a short form, one letter a message: `s` system, `u` user, `a` assistant,
/// `c` an assistant's tool call, `r` its result.
fn history(letters: &str) -> Vec<Message> {
    letters
        .chars()
        .enumerate()
        .map(|(index, letter)| {
            let text = |role| Message {
                role,
                content: vec![ContentBlock::Text(format!("{letter}{index}"))],
            };
            match letter {
                's' => text(Role::System),
                'u' => text(Role::User),
                'a' => text(Role::Assistant),
                'c' => Message {
                    role: Role::Assistant,
                    content: vec![ContentBlock::ToolUse {
                        id: "id".into(),
                        name: "tool".into(),
                        input: json!({ "index": index }),
                    }],
                },
                _ => Message {
                    role: Role::User,
                    content: vec![ContentBlock::ToolResult {
                        tool_use_id: "id".into(),
                        content: vec![ContentItem::Text(format!("result {index}"))],
                        is_error: false,
                    }],
                },
            }
        })
        .collect()
}

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

#[test]
fn a_conversation_that_begins_with_the_assistant_keeps_that_only_whole() {
    check("aua", 3, "aua");
    check("auaua", 4, ".uaua");
    check("aaa", 1, "aaa");
}

/// Any valid history, in the short form of `history`.
fn letters() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["u", "a", "cr", "crcr", "s", "ua"]), 0..12)
        .prop_map(|parts| format!("u{}", parts.concat()))
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
        }
        let count = kept.iter().filter(|message| message.role != Role::System).count();
        prop_assert!(count <= window.max(3), "at most the window, or the goal and one exchange");
    }
}
