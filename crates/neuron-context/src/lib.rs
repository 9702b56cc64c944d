//! Strategies that keep a conversation valid and within its token budget.
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
//! Pass a strategy to the method `context` of an agent's builder. The agent calls the strategy before each model call.
//!
//! # Which strategy
//!
//! | strategy | effect | cost | for |
//! |---|---|---|---|
//! | [`SlidingWindowStrategy`] | drops the oldest messages | the content of the dropped messages | short conversations |
//! | [`ToolResultClearingStrategy`] | clears old tool results | the content of the results; calls and responses stay | agents with long tool results |
//! | [`SummarizationStrategy`] | replaces old messages with a model's summary | a model call | long conversations |
//! | [`CompositeStrategy`] | applies several strategies until the conversation is short enough | the costs of the applied strategies | production, with cheap strategies first |
//!
//! A provider may also compact by itself. See [`ContextManagement`](neuron_types::ContextManagement).
//!
//! # Guarantees of all strategies
//!
//! - The history stays valid. A tool call and its results are kept or dropped together.
//! - System messages, the message that started the run, and [pinned](neuron_types::Message::pinned) messages are kept.
//! - If a strategy fails, the history does not change. The agent's run ends with the error, unless another strategy of
//!   a [`CompositeStrategy`] succeeds.
//! - A second compaction of a compacted history changes nothing.
//!
//! # Sizes
//!
//! A budget is the maximum number of tokens of a whole request. A request consists of the system prompt, the tool
//! definitions and the conversation. A compaction is due when the size of the request exceeds the budget. An agent
//! computes this size as the usage that the provider reported last, plus a [`TokenCounter`]'s estimate of the later
//! messages. Leave room for the response and for estimates that are too low. If the request still exceeds the budget
//! after a compaction, a warning is logged once, and the run continues.
//!
//! A compaction rewrites the conversation, which invalidates the provider's cache. Use a low-water mark, or a minimum
//! number of tokens to free, so that one compaction frees enough tokens for many turns.
//!
//! # Prompts and reminders
//!
//! A [`PersistentContext`] assembles a system prompt from sections. Pass it to the method `system_prompt` of an agent's
//! builder. A [`SystemInjector`] reminds the model of its instructions in a long conversation. Pass it to the method
//! `injector`.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod strategies;

mod composite;
mod sliding_window;
mod summarization;
mod tool_result_clearing;

mod persistent_context;
mod system_injector;

mod calibrated_estimate;
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
