//! All strategies in one place, with [`BoxedStrategy`] for lists of them.

pub use crate::sliding_window::SlidingWindowStrategy;
pub use neuron_types::BoxedStrategy;
