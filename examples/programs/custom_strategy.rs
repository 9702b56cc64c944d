//! Implements a context strategy that keeps the last turns of a conversation and drops whole older turns.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::{ContextError, RequestRef, transcript};

// ANCHOR: strategy
/// Keeps the last `keep` turns as soon as a request exceeds `max_tokens`. A turn is a user's question with all tool
/// calls and responses after it.
struct LastTurns {
    keep: usize,
    max_tokens: usize,
    counter: TokenCounter,
}

/// Returns `true` if `message` is the question of a new turn, after the messages of `turn`.
fn starts_turn(turn: &[Message], message: &Message) -> bool {
    let is_answered =
        |last: &Message| last.role == Role::Assistant && last.tool_uses().next().is_none();
    message.role == Role::User && turn.last().is_some_and(is_answered)
}

/// Returns `true` if no strategy may drop the message.
fn must_stay(message: &Message) -> bool {
    message.role == Role::System || message.is_pinned()
}

impl ContextStrategy for LastTurns {
    fn should_compact(&self, _messages: &[Message], token_count: usize) -> bool {
        token_count > self.max_tokens
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        let mut turns: Vec<Vec<Message>> = Vec::new();
        for message in messages {
            match turns.last_mut() {
                Some(turn) if !starts_turn(turn, &message) => turn.push(message),
                _ => turns.push(vec![message]),
            }
        }
        // A turn is kept or dropped as a whole, so no tool call loses its result.
        let first_kept = turns.len().saturating_sub(self.keep);
        let turns = turns.into_iter().enumerate();
        let kept = turns.filter(|(index, turn)| *index >= first_kept || turn.iter().any(must_stay));
        Ok(kept.flat_map(|(_, turn)| turn).collect())
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.counter.estimate_messages(messages)
    }

    // Counts the system prompt and the tools too.
    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.counter.estimate_request(request)
    }

    // The agent may correct the estimates with the usage that the vendor reports.
    fn counts_tokens(&self) -> bool {
        true
    }
}
// ANCHOR_END: strategy

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let strategy = LastTurns { keep: 2, max_tokens: 130, counter: TokenCounter::new() };
    let agent = Agent::builder(Anthropic::from_env()?).context(strategy).build();

    let mut conversation = Conversation::new();
    for question in ["The old capital?", "The highest mountain?", "The flag?", "The population?"] {
        let result = agent.run(&mut conversation, question).await?;
        transcript::validate(conversation.messages())?;
        println!("{} messages: {}", conversation.messages().len(), result.response);
    }
    Ok(())
}
// ANCHOR_END: main
