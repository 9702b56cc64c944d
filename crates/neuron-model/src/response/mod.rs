//! Responses of a model, and what they used and cost.

mod answer_metadata;
mod answer_route;
mod completion_response;
mod cost;
mod money;
mod price_list;
mod usage;

pub use answer_metadata::AnswerMetadata;
pub use answer_route::{AnswerRoute, FailedRoute};
pub use completion_response::{CompletionResponse, EMPTY_ANSWER, StopReason};
pub use cost::Cost;
pub use money::{Money, ParseMoneyError};
pub use price_list::{PriceList, UnknownPrice};
pub use usage::{TokenUsage, UsageIteration};
