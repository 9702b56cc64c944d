//! All strategies, and [`BoxedStrategy`] for lists of strategies.

pub use crate::composite::CompositeStrategy;
pub use crate::sliding_window::SlidingWindowStrategy;
pub use crate::summarization::SummarizationStrategy;
pub use crate::tool_result_clearing::ToolResultClearingStrategy;
pub use neuron_types::BoxedStrategy;
