//! Strategies that keep a conversation inside its token budget without ever breaking it.
//!
//! ```
//! use neuron_context::SlidingWindowStrategy;
//! use neuron_types::{ContextStrategy, Message};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), neuron_types::ContextError> {
//! // Keep the last 2 messages once the conversation exceeds 20 tokens.
//! let strategy = SlidingWindowStrategy::new(2, 20);
//! let messages = vec![
//!     Message::system("You are a helpful assistant."),
//!     Message::user("What is Rust?"),
//!     Message::assistant("A systems programming language."),
//!     Message::user("And what about async?"),
//!     Message::assistant("It has async/await over futures."),
//! ];
//!
//! let tokens = strategy.token_estimate(&messages);
//! assert!(strategy.should_compact(&messages, tokens));
//! let compacted = strategy.compact(messages).await?;
//! assert_eq!(compacted.len(), 3, "the system message and the last two");
//! # Ok(())
//! # }
//! ```
//!
//! An agent's builder takes a strategy (`context`). The agent asks it before each call of the model.
//!
//! # Which strategy
//!
//! | strategy | what it does | what it costs | for |
//! |---|---|---|---|
//! | [`SlidingWindowStrategy`] | drops the oldest messages | what they said | short conversations |
//! | [`ToolResultClearingStrategy`] | empties old results of tools | what they said; calls and answers stay | agents whose tools return much |
//! | [`SummarizationStrategy`] | lets a model summarise old messages | a call of the model | long conversations |
//! | [`CompositeStrategy`] | applies several, until one was enough | what these cost | production: cheap ones first |
//!
//! A provider may compact by itself too:
//! [`ContextManagement`](neuron_types::ContextManagement).
//!
//! # What all keep
//!
//! - The history stays valid: a tool call and its results stay or go together.
//! - System messages, the message that started the run, and messages that are
//!   [pinned](neuron_types::Message::pinned) stay.
//! - A strategy that fails leaves the history as it was. The run of an agent ends with its error, unless
//!   a [`CompositeStrategy`] has another that helps.
//! - Where a compaction has done what it can, another changes nothing.
//!
//! # Sizes
//!
//! Budgets are in tokens, of all that a call of the model sends: system prompt, tool definitions and
//! conversation. A compaction is due when the size exceeds the budget. In an agent the size is what
//! the provider reported last, and a [`TokenCounter`]'s estimate of what came later. Leave room for
//! the answer, and for an estimate that is too low. A budget that cannot be reached is logged once, and
//! the run goes on.
//!
//! A compaction rewrites the conversation, so the provider's cache of it is lost. Let one make room
//! for many turns: by a low-water mark, or by a least number of tokens to free.
//!
//! # What is not the conversation
//!
//! A [`PersistentContext`] puts a system prompt together from sections, a [`SystemInjector`] reminds
//! the model of its instructions while the conversation grows. An agent's builder takes both
//! (`system_prompt`, `injector`).

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod strategies;

mod composite;
mod sliding_window;
mod summarization;
mod tool_result_clearing;

mod persistent_context;
mod system_injector;

mod corrected;
mod history;
mod low_water_mark;
mod token_counter;

#[cfg(test)]
mod test_history;

pub use composite::CompositeStrategy;
pub use persistent_context::{ContextSection, PersistentContext};
pub use sliding_window::SlidingWindowStrategy;
pub use summarization::SummarizationStrategy;
pub use system_injector::{InjectionTrigger, SystemInjector};
pub use token_counter::TokenCounter;
pub use tool_result_clearing::ToolResultClearingStrategy;
