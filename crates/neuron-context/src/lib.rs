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
//! | type | does |
//! |---|---|
//! | [`SlidingWindowStrategy`] | drops the oldest messages |
//! | [`ToolResultClearingStrategy`] | empties old results of tools |
//! | [`SummarizationStrategy`] | lets a model summarise old messages |
//! | [`CompositeStrategy`] | applies several, one after another |
//! | [`TokenCounter`] | estimates tokens without a tokenizer |
//! | [`SystemInjector`] | reminds the model of its instructions |
//! | [`PersistentContext`] | puts a system prompt together from sections |
//!
//! All strategies keep the history valid, the message that started the run, and messages that are
//! [pinned](neuron_types::Message::pinned). Where a compaction has done what it can, another changes
//! nothing.

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
