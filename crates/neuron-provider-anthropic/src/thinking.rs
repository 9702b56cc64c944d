//! The field `thinking` of a request.

use neuron_model::{Message, ReasoningEffort, RequestRef, Role, ThinkingConfig};
use serde::Serialize;

use crate::ids::ids;
use crate::open_calls::OpenCalls;
use crate::request::{Block, Calls, Content};
use crate::search::Search;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Thinking {
    Enabled { budget_tokens: usize },
    Disabled,
    Adaptive,
}

/// Returns the field `thinking`, or `None` for the API's default.
///
/// A budget is left out if the current turn began without thinking. The API rejects the request otherwise, see
/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>.
pub(crate) fn thinking(request: RequestRef<'_>, search: &Search<'_>) -> Option<Thinking> {
    // An explicit `thinking` takes precedence over the effort.
    if request.thinking.is_none() && request.reasoning_effort == Some(ReasoningEffort::None) {
        return Some(Thinking::Disabled);
    }
    Some(match request.thinking? {
        ThinkingConfig::Enabled { .. } if began_without_thinking(request.messages, search) => {
            return None;
        }
        ThinkingConfig::Enabled { budget_tokens } => Thinking::Enabled { budget_tokens },
        ThinkingConfig::Disabled => Thinking::Disabled,
        ThinkingConfig::Adaptive => Thinking::Adaptive,
        _ => return None,
    })
}

/// Returns `true` if the model waits for results of tools in a turn that began without thinking. Another vendor's model
/// may have begun the turn, and its reasoning is not sent.
fn began_without_thinking(messages: &[Message], search: &Search<'_>) -> bool {
    let (ids, open_calls) = (ids(&[]), OpenCalls::new(messages));
    let calls = Calls { ids: &ids, open_calls: &open_calls, search };
    let start = messages.iter().rposition(|message| {
        let mut blocks = Content::of(message, calls).blocks();
        message.role != Role::Assistant
            && blocks.any(|block| !matches!(block, Block::ToolResult { .. }))
    });
    let turn = messages.get(start.map_or(0, |last| last + 1)..).unwrap_or_default();
    let is_sent = |message: &&Message| Content::of(message, calls).blocks().next().is_some();
    let is_open = turn.iter().rfind(is_sent).is_some_and(|message| message.role == Role::User);
    let mut answers = turn.iter().filter(|message| message.role == Role::Assistant);
    let first = answers.find_map(|message| Content::of(message, calls).blocks().next());
    is_open && first.is_some_and(|block| !block.is_thinking())
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, ContentBlock};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(messages: Vec<Message>, expected: bool) {
        let thinking = Some(ThinkingConfig::Enabled { budget_tokens: 1024 });
        let request = CompletionRequest { messages, thinking, ..Default::default() };
        let request = request.view();
        let search = Search::of(&request, "claude-sonnet-4-5");
        assert_eq!(super::thinking(request, &search).is_some(), expected);
    }

    fn message(role: Role, content: Vec<ContentBlock>) -> Message {
        Message { role, content }
    }

    fn thought(signature: &str) -> ContentBlock {
        ContentBlock::Thinking { thinking: "hm".into(), signature: signature.into() }
    }

    fn call() -> ContentBlock {
        ContentBlock::ToolUse { id: "c".into(), name: "look".into(), input: json!({}) }
    }

    fn results() -> Message {
        let result = ContentBlock::ToolResult {
            tool_use_id: "c".into(),
            content: Vec::new(),
            is_error: false,
        };
        message(Role::User, vec![result])
    }

    /// The API rejects a budget in a turn that another vendor's model has begun.
    #[test]
    fn budget_is_left_out_in_a_turn_without_thinking() {
        let hi = || Message::user("hi");
        let called = |content: Vec<ContentBlock>| message(Role::Assistant, content);
        check(vec![hi()], true);
        check(vec![hi(), called(vec![call()]), results()], false);
        check(vec![hi(), called(vec![thought(""), call()]), results()], false);
        check(vec![hi(), called(vec![thought("s"), call()]), results()], true);
        check(
            vec![
                hi(),
                called(vec![ContentBlock::Text(" ".into()), thought("s"), call()]),
                results(),
            ],
            true,
        );
        let first = called(vec![thought("s"), call()]);
        check(vec![hi(), first, results(), called(vec![call()]), results()], true);
        check(vec![hi(), called(vec![call()]), results(), Message::user("go on")], true);
        check(vec![hi(), called(vec![call()]), results(), Message::user(" ")], false);
        check(vec![hi(), called(vec![call()]), results(), Message::assistant("")], false);
        check(vec![hi(), Message::assistant("yes?")], true);
    }
}
