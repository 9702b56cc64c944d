//! Tests of the functions that group the messages of a history, find the messages to keep, and repair invalid
//! histories.

use neuron_types::ContentBlock;

use super::*;
use crate::test_history::history;

#[track_caller]
fn check_protected(letters: &str, expected: &str) {
    let messages = history(letters);
    let protected = protected(&messages, &exchanges(&messages));
    let marks: String = letters
        .chars()
        .enumerate()
        .map(|(index, letter)| if protected.contains(&index) { letter } else { '.' })
        .collect();
    assert_eq!(marks, expected);
}

#[test]
fn first_user_message_of_the_run_is_protected() {
    check_protected("", "");
    check_protected("ua", "u.");
    check_protected("uauacr", "..u...");
    check_protected("uu", ".u");
    check_protected("sSu", "..u");
}

/// Checks that the message that started the run is kept, even if a user message was added later during the run.
#[test]
fn message_during_a_run_does_not_replace_its_goal() {
    check_protected("uaucrucr", "..ucru..");
    check_protected("ucrucrucr", "u...cru..");
    check_protected("ucruu", "ucr.u");
    check_protected("ucrsu", "ucr.u");
}

#[test]
fn pinned_messages_are_protected_with_calls_and_results() {
    check_protected("UauCra", "U.uCr.");
    check_protected("UaucRa", "U.ucR.");
    check_protected("uAua", ".Au.");
}

#[test]
fn summary_is_no_plain_user_message() {
    let summary = Message::user(format!("{SUMMARY_PREFIX}\nwhat was said"));
    assert!(is_summary(&summary) && !is_plain_user(&summary));
    check_protected("uzcr", "u...");
    check_protected("uzcruc", "u.cru.");
}

#[track_caller]
fn check_complete(letters: &str, kept: &str, completed: &str) {
    let messages = history(letters);
    let mut keep: Vec<bool> = kept.chars().map(|mark| mark != '.').collect();
    for _ in 0..2 {
        complete(&messages, &mut keep);
        let marks = letters.chars().zip(&keep).map(|(letter, keep)| match keep {
            true => letter,
            false => '.',
        });
        assert_eq!(marks.collect::<String>(), completed);
    }
}

#[test]
fn kept_response_keeps_its_question() {
    check_complete("suauAu", "s...Au", "s..uAu");
    check_complete("suauau", "s....u", "s....u");
}

/// Checks that the last response before the run is kept if messages before this response are kept. Otherwise a message
/// of an earlier run would look like the start of the current run.
#[test]
fn response_before_the_run_is_kept_with_earlier_messages() {
    check_complete("UauCrau", "U..Cr.u", "U..Crau");
    check_complete("uaucru", "..ucru", "..ucru");
    check_complete("uaucru", "u.ucru", "uaucru");
    check_complete("uauau", "u...u", "u...u");
}

#[test]
fn old_faults_are_repaired_and_pending_calls_are_kept() {
    let valid = history("ucra");
    assert_eq!(repaired(valid.clone()), valid);
    let orphan: Vec<_> = history("ucac");
    let after = repaired(orphan.clone());
    assert_eq!(after.last(), orphan.last(), "the calls at the end wait");
    assert_eq!(transcript::validate(&after[..after.len() - 1]), Ok(()));
    let begins = history("aua");
    assert_eq!(repaired(begins.clone()), begins);
    let both = repaired(history("aca"));
    assert_eq!(both[0], history("a")[0]);
    let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
    assert!(both[2].content.iter().all(is_result), "{both:#?}");
}

/// Checks that a paused response does not count as the end of a run. The next assistant message continues this
/// response.
#[test]
fn paused_turn_does_not_end_the_run() {
    check_protected("uacru", "u.cru");
    check_protected("uascru", "u..cru");
    check_protected("uazcru", "u..cru");
    check_protected("uaacru", "u..cru");
    check_protected("uauacru", "..u.cru");
    // The continuation is kept, because it shows that the pinned message is not final.
    check_protected("uauAcruu", "..uAcr.u");
    check_protected("uAacruau", ".Aacr..u");
    check_complete("uauaCru", "..u.Cru", "..u.Cru");
}
