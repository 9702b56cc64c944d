//! The Converse API of Amazon Bedrock on the loopback interface, and its parts for tests without HTTP.
//!
//! [`BedrockServer`] rejects the requests that Bedrock rejects. An error text is Bedrock's own if it is known from an
//! issue of a client. Several rules depend on the family of the model, such as Claude or Llama, which follows from the
//! id of the model ([`check_request`]). Two rules are stricter than Bedrock's own. The server rejects unknown fields,
//! and empty texts in tool results, which some models accept.
//!
//! The server sends a signature that is in the script unchanged. A thought of a Claude model without a signature gets
//! the server's own signature ([`reasoning_signature`]). If a signature of the server comes back with a changed text,
//! the request is rejected. The server does not detect a thought that is missing in the next request. A test that must
//! detect this compares [`requests`](crate::vendor::VendorServer::requests) with the responses.

mod auth;
mod block;
mod check;
mod error;
mod frame;
mod response;
mod route;
mod server;
mod signature;
mod sigv4;
mod stop_reason;
mod usage;

pub use check::check_request;
pub use error::ApiError;
pub use frame::frame;
pub use response::{json_body, stream_bytes};
pub use route::{Method, Route};
pub use server::{BedrockApi, BedrockServer, BedrockServerBuilder};
pub use signature::reasoning_signature;
pub use stop_reason::stop_reason_to_wire;
