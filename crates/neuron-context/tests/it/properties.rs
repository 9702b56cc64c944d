//! Property tests of the guarantees of all strategies, with generated settings and conversations.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use neuron_context::strategies::BoxedStrategy;
use neuron_context::{
    CompositeStrategy, SlidingWindowStrategy, SummarizationStrategy, ToolResultClearingStrategy,
};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, ContextStrategy,
    DocumentSource, ImageSource, Message, Provider, ProviderError, Role, StopReason, StreamHandle,
    TokenUsage, transcript,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{CLEARED, SUMMARY, request};

/// A provider that returns the same summary of the given length for every conversation.
#[derive(Clone, Copy)]
struct Summarizer(usize);

impl Provider for Summarizer {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Ok(CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: Message::assistant("s".repeat(self.0.max(1))),
            usage: TokenUsage::default(),
            stop_reason: StopReason::EndTurn,
        })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("nobody streams here".into()))
    }
}

/// A part of a generated conversation.
#[derive(Debug, Clone)]
enum Part {
    User(Vec<Block>, bool),
    Assistant(Vec<Block>, bool),
    System(bool),
    /// A message with parallel calls and the message with their results. Both messages may have other content and may
    /// be pinned.
    Tools {
        calls: usize,
        beside: Vec<Block>,
        after: bool,
        pinned: (bool, bool),
        size: usize,
    },
    Summary(bool),
}

#[derive(Debug, Clone, Copy)]
enum Block {
    Text(usize),
    Thinking,
    Redacted,
    Image,
    Document,
    Compaction,
    Raw,
    RawText,
}

impl Block {
    fn content(self) -> ContentBlock {
        let raw = |portable| ContentBlock::Raw {
            provider: "vendor".into(),
            json: json!({ "type": "text", "text": "cited", "citations": [] }),
            portable,
        };
        match self {
            Self::Text(length) => ContentBlock::Text("t".repeat(length)),
            Self::Thinking => {
                ContentBlock::Thinking { thinking: "hm".into(), signature: "sig".into() }
            }
            Self::Redacted => ContentBlock::RedactedThinking { data: "x".into() },
            Self::Image => {
                ContentBlock::Image { source: ImageSource::Url { url: "https://a.b/c".into() } }
            }
            Self::Document => {
                ContentBlock::Document { source: DocumentSource::PlainText { data: "d".into() } }
            }
            Self::Compaction => ContentBlock::Compaction { content: "so far".into() },
            Self::Raw => raw(None),
            Self::RawText => raw(Some(Box::new(ContentBlock::Text("cited".into())))),
        }
    }
}

fn call(id: usize, raw: bool) -> ContentBlock {
    let (id, input) = (format!("c{id}"), json!({ "path": "/a" }));
    let call = ContentBlock::ToolUse { id, name: "look".into(), input };
    match raw {
        false => call,
        true => ContentBlock::Raw {
            provider: "vendor".into(),
            json: json!({ "type": "tool_use" }),
            portable: Some(Box::new(call)),
        },
    }
}

fn result(id: usize, size: usize) -> ContentBlock {
    let mut content = vec![ContentItem::Text("r".repeat(size))];
    if size.is_multiple_of(5) {
        let source = ImageSource::Url { url: "https://a.b/c".into() };
        content.push(ContentItem::Image { source });
    }
    ContentBlock::ToolResult { tool_use_id: format!("c{id}"), content, is_error: size % 2 == 1 }
}

impl Part {
    fn messages(&self) -> Vec<Message> {
        let content = |blocks: &[Block]| blocks.iter().map(|block| block.content()).collect();
        let pin = |message: Message, pinned| if pinned { message.pinned() } else { message };
        match self {
            Self::User(blocks, pinned) => {
                vec![pin(Message { role: Role::User, content: content(blocks) }, *pinned)]
            }
            Self::Assistant(blocks, pinned) => {
                vec![pin(Message { role: Role::Assistant, content: content(blocks) }, *pinned)]
            }
            Self::System(pinned) => vec![pin(Message::system("rules"), *pinned)],
            Self::Tools { calls, beside, after, pinned, size } => {
                let mut asked: Vec<ContentBlock> = content(beside);
                asked.extend((0..*calls).map(|id| call(id, (id + size).is_multiple_of(3))));
                let mut answered: Vec<_> = (0..*calls).map(|id| result(id, size + id)).collect();
                if *after {
                    answered.push(ContentBlock::Text("and hurry".into()));
                }
                vec![
                    pin(Message { role: Role::Assistant, content: asked }, pinned.0),
                    pin(Message { role: Role::User, content: answered }, pinned.1),
                ]
            }
            Self::Summary(pinned) => {
                vec![pin(Message::user(format!("{SUMMARY}\nearlier")), *pinned)]
            }
        }
    }
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = prop_oneof![
        4 => (1_usize..200).prop_map(Block::Text),
        1 => Just(Block::Thinking),
        1 => Just(Block::Redacted),
        1 => Just(Block::Image),
        1 => Just(Block::Document),
        1 => Just(Block::Compaction),
        1 => Just(Block::Raw),
        1 => Just(Block::RawText),
    ];
    prop::collection::vec(block, 1..3)
}

fn is_pinned() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn part() -> impl Strategy<Value = Part> {
    let tools = (1_usize..4, blocks(), any::<bool>(), (is_pinned(), is_pinned()), 0_usize..300)
        .prop_map(|(calls, beside, after, pinned, size)| Part::Tools {
            calls,
            beside,
            after,
            pinned,
            size,
        });
    prop_oneof![
        3 => (blocks(), is_pinned()).prop_map(|(blocks, pinned)| Part::User(blocks, pinned)),
        3 => (blocks(), is_pinned()).prop_map(|(blocks, pinned)| Part::Assistant(blocks, pinned)),
        1 => is_pinned().prop_map(Part::System),
        5 => tools,
        1 => is_pinned().prop_map(Part::Summary),
    ]
}

/// Generates a valid conversation whose messages are all different. Calls at its end may be pending, without results.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let first = blocks().prop_map(|blocks| Part::User(blocks, false));
    let parts = prop::collection::vec(part(), 0..14);
    (any::<bool>(), first, parts, any::<bool>()).prop_map(|(system, first, parts, pending)| {
        let mut messages: Vec<Message> =
            if system { vec![Message::system("system")] } else { Vec::new() };
        messages.extend(std::iter::once(&first).chain(&parts).flat_map(Part::messages));
        if pending {
            let content = vec![call(0, false), call(1, true)];
            messages.push(Message { role: Role::Assistant, content });
        }
        for (index, message) in messages.iter_mut().enumerate() {
            let is_summary = is_summary(message);
            let has_calls = message.tool_uses().next().is_some();
            if !is_summary && !has_calls {
                message.content.push(ContentBlock::Text(format!("#{index}")));
            }
        }
        messages
    })
}

/// Generates a number for a setting. The number is mostly less than `most`, and sometimes `usize::MAX`.
fn up_to(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..most, 1 => Just(usize::MAX)]
}

/// Generates a strategy of any kind with any settings.
fn strategy() -> impl Strategy<Value = Kind> {
    let mark = || prop::option::of(up_to(1_500));
    let leaf = prop_oneof![
        (up_to(10), mark()).prop_map(|(window, mark)| Kind::Window(window, mark)),
        (up_to(6), up_to(400)).prop_map(|(keep, at_least)| Kind::Clearing(keep, at_least)),
        (up_to(10), mark(), 0_usize..100)
            .prop_map(|(recent, mark, length)| Kind::Summary(recent, mark, length)),
    ];
    leaf.prop_recursive(2, 8, 4, move |kind| {
        (prop::collection::vec(kind, 0..4), up_to(2_000), mark())
            .prop_map(|(kinds, budget, mark)| Kind::Composite(kinds, budget, mark))
    })
}

#[derive(Debug, Clone)]
enum Kind {
    Window(usize, Option<usize>),
    Clearing(usize, usize),
    Summary(usize, Option<usize>, usize),
    Composite(Vec<Kind>, usize, Option<usize>),
}

impl Kind {
    /// Returns `true` if `compact` of the strategy acts on every history, and not only on a history above a budget.
    fn applies(&self) -> bool {
        !matches!(self, Self::Composite(..))
    }

    fn build(&self) -> BoxedStrategy {
        match self {
            Self::Window(window, mark) => {
                let strategy = SlidingWindowStrategy::new(*window, 0);
                match mark {
                    Some(mark) => BoxedStrategy::new(strategy.with_low_water_mark(*mark)),
                    None => BoxedStrategy::new(strategy),
                }
            }
            Self::Clearing(keep, at_least) => BoxedStrategy::new(
                ToolResultClearingStrategy::new(*keep, 0).with_at_least(*at_least),
            ),
            Self::Summary(recent, mark, length) => {
                let strategy = SummarizationStrategy::new(Summarizer(*length), *recent, 0);
                match mark {
                    Some(mark) => BoxedStrategy::new(strategy.with_low_water_mark(*mark)),
                    None => BoxedStrategy::new(strategy),
                }
            }
            Self::Composite(kinds, budget, mark) => {
                let strategies = kinds.iter().map(Self::build).collect();
                let strategy = CompositeStrategy::new(strategies, *budget);
                match mark {
                    Some(mark) => BoxedStrategy::new(strategy.with_low_water_mark(*mark)),
                    None => BoxedStrategy::new(strategy),
                }
            }
        }
    }
}

/// Returns the result of a future that is ready at its first poll.
fn wait<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn compact(strategy: &BoxedStrategy, messages: &[Message]) -> Vec<Message> {
    wait(strategy.compact(messages.to_vec())).unwrap()
}

/// Adds results for the pending calls at the end of a history.
fn answered(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    let pending = messages.last().map(|last| last.tool_uses().count()).unwrap_or_default();
    if pending > 0 {
        let content = (0..pending).map(|id| result(id, 1)).collect();
        messages.push(Message { role: Role::User, content });
    }
    messages
}

fn has_result(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_tool_result_id().is_some())
}

/// Returns the messages after the last assistant message.
fn unseen(messages: &[Message]) -> &[Message] {
    let last = messages.iter().rposition(|message| message.role == Role::Assistant);
    &messages[last.map_or(0, |last| last + 1)..]
}

fn is_plain_user(message: &Message) -> bool {
    message.role == Role::User && !has_result(message) && !is_summary(message)
}

fn is_summary(message: &Message) -> bool {
    message.text().starts_with(SUMMARY)
}

/// Returns the user message that started the run. If tool results follow the first user message after the last final
/// response, this is the message. Otherwise it is the newest user message. An assistant message is not final if the
/// next message is also an assistant message.
fn goal(messages: &[Message]) -> Option<&Message> {
    let newest = messages.iter().rposition(is_plain_user)?;
    let before = &messages[..newest];
    let is_answer = |index: &usize| {
        let counts = |message: &&Message| message.role != Role::System && !is_summary(message);
        let next = messages[index + 1..].iter().find(counts);
        before[*index].role == Role::Assistant
            && before[*index].tool_uses().next().is_none()
            && next.is_some_and(|next| next.role == Role::User)
    };
    let run = &before[(0..newest).rev().find(is_answer).map_or(0, |answer| answer + 1)..];
    let first = run.iter().position(is_plain_user);
    match first {
        Some(first) if run[first..].iter().any(has_result) => run.get(first),
        _ => messages.get(newest),
    }
}

/// Returns a message without the content of its tool results, for comparisons.
fn outline(message: &Message) -> Message {
    let content = message.content.iter().map(|block| match block {
        ContentBlock::ToolResult { tool_use_id, is_error, .. } => ContentBlock::ToolResult {
            tool_use_id: tool_use_id.clone(),
            content: Vec::new(),
            is_error: *is_error,
        },
        other => other.clone(),
    });
    Message { role: message.role, content: content.collect() }
}

/// Returns `true` if `part` is a subsequence of `whole`.
fn is_subsequence(part: &[Message], whole: &[Message]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|message| whole.any(|other| other == message))
}

proptest! {
    #[test]
    fn every_strategy_keeps_the_history_valid_and_protected_messages(
        before in conversation(),
        kind in strategy(),
    ) {
        prop_assert_eq!(transcript::validate(&answered(&before)), Ok(()));
        let strategy = kind.build();
        let after = compact(&strategy, &before);

        prop_assert_eq!(transcript::validate(&answered(&after)), Ok(()));
        let waiting = |messages: &[Message]| {
            messages.last().filter(|last| last.tool_uses().next().is_some()).cloned()
        };
        prop_assert_eq!(waiting(&after), waiting(&before), "calls that wait for results stay");
        prop_assert!(after.contains(goal(&before).unwrap()), "the goal stays");
        for message in before.iter().filter(|message| is_pinned_or_system(message)) {
            prop_assert!(after.contains(message), "{message:?} stays as it is");
        }
        let kept: Vec<Message> = after
            .iter()
            .filter(|message| !is_summary(message))
            .map(outline)
            .collect();
        let outlines: Vec<Message> = before.iter().map(outline).collect();
        prop_assert!(is_subsequence(&kept, &outlines), "nothing is invented or moved");
        prop_assert_eq!(after.last(), before.last(), "the newest stays whole");
        let unseen = unseen(&before);
        // A summary must not come after results that the model has not seen.
        if !unseen.iter().any(is_summary) {
            for message in unseen.iter().filter(|message| has_result(message)) {
                prop_assert!(after.contains(message), "results that nobody has seen stay whole");
            }
        }
    }

    #[test]
    fn second_compaction_changes_nothing(before in conversation(), kind in strategy()) {
        let strategy = kind.build();
        let once = compact(&strategy, &before);
        prop_assert_eq!(&compact(&strategy, &once), &once);
    }

    #[test]
    fn summary_keeps_the_first_user_message_and_the_newest_messages(
        before in conversation(),
        recent in 0_usize..10,
    ) {
        let strategy = BoxedStrategy::new(SummarizationStrategy::new(Summarizer(9), recent, 0));
        let after = compact(&strategy, &before);
        let first = before.iter().find(|message| is_plain_user(message)).unwrap();
        prop_assert!(after.contains(first));
        let newest = |messages: &[Message]| -> Vec<Message> {
            let talk = messages.iter().rev().filter(|message| message.role != Role::System);
            talk.take(recent).cloned().collect()
        };
        prop_assert_eq!(newest(&after), newest(&before));
        let summaries = after.iter().filter(|message| is_summary(message));
        let earlier = before.iter().filter(|message| is_summary(message));
        prop_assert!(summaries.count() <= 1 + earlier.count());
    }

    #[test]
    fn clearing_keeps_all_messages_and_the_newest_results(
        before in conversation(),
        keep in 0_usize..8,
    ) {
        let strategy = BoxedStrategy::new(ToolResultClearingStrategy::new(keep, 0));
        let after = compact(&strategy, &before);
        prop_assert_eq!(after.len(), before.len());
        let results = |messages: &[Message]| -> Vec<ContentBlock> {
            let blocks = messages.iter().flat_map(|message| message.content.clone());
            blocks.filter(|block| block.as_tool_result_id().is_some()).collect()
        };
        let (old, new) = (results(&before), results(&after));
        prop_assert_eq!(old.len(), new.len());
        let whole = old.len().saturating_sub(keep);
        prop_assert_eq!(&old[whole..], &new[whole..]);
        let is_cleared = |block: &&ContentBlock| {
            matches!(block, ContentBlock::ToolResult { content, .. }
                if *content == [ContentItem::Text(CLEARED.into())])
        };
        let has_pins = before.iter().any(Message::is_pinned);
        let unseen = results(unseen(&before)).len();
        if !has_pins {
            let count = old.len().saturating_sub(keep.max(unseen));
            prop_assert_eq!(&old[count..], &new[count..]);
            let size = |block: &ContentBlock| {
                let message = Message { role: Role::User, content: vec![block.clone()] };
                neuron_context::TokenCounter::new().estimate_message(&message)
            };
            for (old, new) in old.iter().zip(&new).take(count) {
                prop_assert!(size(new) <= size(old), "nothing becomes longer");
                let cleared = |content| ContentBlock::ToolResult {
                    tool_use_id: old.as_tool_result_id().unwrap_or_default().to_owned(),
                    content,
                    is_error: false,
                };
                let mark = cleared(vec![ContentItem::Text(CLEARED.into())]);
                prop_assert_eq!(is_cleared(&new), is_cleared(&old) || size(&mark) < size(old));
            }
        }
    }

    #[test]
    fn old_fault_is_repaired(
        before in conversation(),
        kind in strategy(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut before = before;
        for index in lost {
            let index = index.index(before.len());
            // The first user message and pending calls at the end are kept.
            let first = before.iter().position(|message| message.role == Role::User);
            if Some(index) > first && index + 1 < before.len() {
                before.remove(index);
            }
        }
        let after = compact(&kind.build(), &before);
        if transcript::validate(&answered(&before)).is_ok() || kind.applies() {
            prop_assert_eq!(transcript::validate(&answered(&after)), Ok(()));
        }
    }

    #[test]
    fn known_size_of_the_request_changes_only_the_amount(
        before in conversation(),
        kind in strategy(),
        known in up_to(100_000),
    ) {
        let strategy = kind.build();
        let request = request(before.clone());
        let (after, _) = wait(strategy.compact_request(request.view(), known)).unwrap();
        prop_assert_eq!(transcript::validate(&answered(&after)), Ok(()));
        prop_assert!(after.contains(goal(&before).unwrap()));
    }
}

fn is_pinned_or_system(message: &Message) -> bool {
    message.role == Role::System || message.is_pinned()
}
