//! Table tests and property tests of `validate` and `repair`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "tool".into(), input: json!({}) }
}

fn result(id: &str) -> ContentBlock {
    ContentBlock::ToolResult {
        tool_use_id: id.into(),
        content: vec![ContentItem::Text(format!("result of {id}"))],
        is_error: false,
    }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn assistant(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::Assistant, content }
}

fn user(content: Vec<ContentBlock>) -> Message {
    Message { role: Role::User, content }
}

#[track_caller]
fn check_violation(history: &[Message], expected: &str) {
    let text = validate(history).map_err(|violation| violation.to_string());
    assert_eq!(text, Err(expected.to_owned()));
    check_repaired(history.to_vec());
}

#[track_caller]
fn check_repaired(history: Vec<Message>) -> Vec<Message> {
    let repaired = repair(history.clone());
    assert_eq!(validate(&repaired), Ok(()), "{history:#?} became {repaired:#?}");
    assert_eq!(repair(repaired.clone()), repaired, "idempotent");
    assert_eq!(repair(history), repaired, "deterministic");
    repaired
}

#[test]
fn valid_histories_are_accepted() {
    let histories = [
        vec![],
        vec![Message::system("s")],
        vec![Message::user("u")],
        vec![Message::system("s"), Message::user("u"), Message::assistant("a")],
        vec![Message::user("u"), Message::user("u"), Message::assistant("a")],
        vec![
            Message::user("u"),
            assistant(vec![text("let me see"), call("1"), call("2")]),
            user(vec![result("2"), result("1"), text("and hurry")]),
            assistant(vec![call("1")]),
            user(vec![result("1")]),
            Message::system("s"),
        ],
    ];
    for history in histories {
        assert_eq!(validate(&history), Ok(()), "{history:?}");
        assert_eq!(repair(history.clone()), history, "a valid history is left alone");
    }
}

#[test]
fn each_violation_is_named_and_repaired() {
    let start = || Message::user("u");
    check_violation(
        &[Message::system("s"), Message::assistant("a")],
        "message 1: the conversation begins with the assistant",
    );
    check_violation(
        &[start(), user(vec![call("1")])],
        "message 1: the tool call `1` stands outside an assistant message",
    );
    check_violation(
        &[start(), assistant(vec![call("")]), user(vec![result("")])],
        "message 1: a tool call has an empty id",
    );
    check_violation(
        &[start(), assistant(vec![call("1"), call("1")]), user(vec![result("1")])],
        "message 1: two tool calls have the id `1`",
    );
    check_violation(
        &[start(), assistant(vec![call("1"), call("2")]), user(vec![result("1")])],
        "message 1: the tool call `2` has no result in the next message",
    );
    check_violation(
        &[start(), assistant(vec![call("1")])],
        "message 1: the tool call `1` has no result in the next message",
    );
    check_violation(
        &[start(), assistant(vec![call("1")]), Message::system("s"), user(vec![result("1")])],
        "message 1: the tool call `1` has no result in the next message",
    );
    check_violation(
        &[start(), assistant(vec![call("1"), result("1")])],
        "message 1: the tool result `1` stands outside a user message",
    );
    check_violation(
        &[start(), assistant(vec![text("a")]), user(vec![result("1")])],
        "message 2: the tool result `1` has no call in the message before",
    );
    check_violation(
        &[start(), assistant(vec![call("1")]), user(vec![result("1"), result("1")])],
        "message 2: the tool call `1` has two results",
    );
    check_violation(
        &[start(), assistant(vec![call("1")]), user(vec![text("u"), result("1")])],
        "message 2: the tool result `1` stands after other content",
    );
}

#[test]
fn repair_keeps_valid_parts() {
    let repaired = check_repaired(vec![
        Message::assistant("How can I help?"),
        assistant(vec![text("a"), call("1"), call("2")]),
        user(vec![text("wait"), result("9"), result("1")]),
    ]);
    let [beginning, greeting, calls, results] = &repaired[..] else { panic!("{repaired:?}") };
    assert_eq!(beginning.text(), MISSING_BEGINNING);
    assert_eq!(greeting.text(), "How can I help?");
    assert_eq!(calls.tool_uses().count(), 2);
    assert_eq!(results.content[0], result("1"));
    let ContentBlock::ToolResult { tool_use_id, content, is_error } = &results.content[1] else {
        panic!("{results:?}")
    };
    assert_eq!((tool_use_id.as_str(), *is_error), ("2", true));
    assert_eq!(content[0].to_string(), MISSING_RESULT);
    assert_eq!(results.content[2], text("wait"));
}

#[test]
fn repair_moves_a_late_result_to_its_place() {
    let between = [Message::system("s"), Message::user("wait")];
    for between in between {
        let repaired = check_repaired(vec![
            Message::user("u"),
            assistant(vec![call("1")]),
            between,
            user(vec![result("1")]),
            Message::assistant("a"),
        ]);
        let results: Vec<_> = repaired
            .iter()
            .flat_map(|message| &message.content)
            .filter(|block| block.as_tool_result_id().is_some())
            .collect();
        assert_eq!(results, [&result("1")]);
        assert!(repaired.iter().all(|message| !message.content.is_empty()), "{repaired:?}");
    }
}

#[test]
fn result_after_the_next_assistant_message_does_not_match_an_earlier_call() {
    let repaired = check_repaired(vec![
        Message::user("u"),
        assistant(vec![call("1")]),
        assistant(vec![call("1")]),
        user(vec![result("1")]),
    ]);
    let ContentBlock::ToolResult { is_error, .. } = &repaired[2].content[0] else {
        panic!("{repaired:?}")
    };
    assert!(is_error);
    assert_eq!(repaired[4].content, [result("1")]);
}

#[test]
fn raw_tool_call_needs_a_result() {
    let raw = ContentBlock::Raw {
        provider: "vendor".into(),
        json: json!({"type": "tool_use", "caller": "x"}),
        portable: Some(Box::new(call("1"))),
    };
    check_violation(
        &[Message::user("u"), assistant(vec![raw])],
        "message 1: the tool call `1` has no result in the next message",
    );
}

#[test]
fn empty_message_is_kept() {
    let history = vec![Message::user("u"), assistant(vec![]), user(vec![result("1")])];
    assert_eq!(check_repaired(history), vec![Message::user("u"), assistant(vec![])]);
}

/// Generates valid histories. They contain user messages, model responses, tool calls with all their results, and
/// system messages.
fn valid_history() -> impl Strategy<Value = Vec<Message>> {
    let round = (0_usize..4, 0_usize..4, any::<bool>(), any::<bool>());
    prop::collection::vec(round, 0..8).prop_map(|rounds| {
        let mut history = vec![Message::user("start")];
        for (number, (kind, calls, trailing, system)) in rounds.into_iter().enumerate() {
            let ids: Vec<_> = (0..calls).map(|call| format!("{}-{call}", number % 3)).collect();
            match kind {
                0 => history.push(Message::user(format!("question {number}"))),
                1 => history.push(Message::assistant(format!("answer {number}"))),
                _ if calls > 0 => {
                    history.push(assistant(ids.iter().map(|id| call(id)).collect()));
                    let mut results: Vec<_> = ids.iter().rev().map(|id| result(id)).collect();
                    results.extend(trailing.then(|| text("also")));
                    history.push(user(results));
                }
                _ => {}
            }
            if system {
                history.push(Message::system("remember"));
            }
        }
        history
    })
}

proptest! {
    #[test]
    fn subsequence_of_a_valid_history_can_be_repaired(
        history in valid_history(),
        keep in prop::collection::vec(any::<bool>(), 40),
        keep_block in prop::collection::vec(any::<bool>(), 40),
    ) {
        prop_assert_eq!(validate(&history), Ok(()));
        let messages: Vec<_> = history
            .into_iter()
            .zip(keep.iter().cycle())
            .filter_map(|(message, keep)| keep.then_some(message))
            .collect();
        check_repaired(messages.clone());
        let mut kept = keep_block.iter().cycle();
        let blocks = messages
            .into_iter()
            .map(|mut message| {
                message.content.retain(|_| *kept.next().unwrap());
                message
            })
            .collect();
        check_repaired(blocks);
    }

    #[test]
    fn any_history_can_be_repaired(
        history in prop::collection::vec(
            (0_usize..3, prop::collection::vec((0_usize..3, 0_usize..3), 0..4)),
            0..8,
        ),
    ) {
        let history = history
            .into_iter()
            .map(|(role, blocks): (usize, Vec<(usize, usize)>)| Message {
                role: [Role::User, Role::Assistant, Role::System][role],
                content: blocks
                    .into_iter()
                    .map(|(kind, id)| {
                        let id = ["", "1", "2"][id];
                        [text(id), call(id), result(id)][kind].clone()
                    })
                    .collect(),
            })
            .collect();
        check_repaired(history);
    }
}

/// Checks that a pinned message is removed if repair leaves only its pin, because providers reject a message without
/// content.
#[test]
fn empty_message_with_a_pin_is_removed() {
    let question = Message::user("go");
    let orphan = Message { role: Role::User, content: vec![result("lost")] }.pinned();
    let repaired = repair(vec![question.clone(), orphan]);
    assert_eq!(repaired, std::slice::from_ref(&question));
    let double = |id| assistant(vec![call(id)]).pinned();
    let repaired = repair(vec![question.clone(), double("")]);
    assert_eq!(repaired, std::slice::from_ref(&question));
    let answered = vec![question, double("1"), user(vec![result("1")]).pinned()];
    assert_eq!(repair(answered.clone()), answered);
}
