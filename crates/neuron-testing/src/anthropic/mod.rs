//! Anthropic's Messages API on the loopback interface, and its parts for tests without HTTP.
//!
//! [`AnthropicServer`] rejects the requests that Anthropic rejects, with Anthropic's error texts. A test with an
//! invalid request therefore fails as a call to Anthropic would.

mod block;
mod check;
mod error;
mod response;
mod server;
mod stop_reason;
mod stream;
mod usage;

pub use check::{check_request, check_version};
pub use error::ApiError;
pub use response::json_body;
pub use server::{AnthropicApi, AnthropicServer, AnthropicServerBuilder};
pub use stop_reason::stop_reason_to_wire;
pub use stream::sse_bytes;
