//! The Gemini API on the loopback interface, as Google AI and as Vertex AI serve it, and its parts for tests without
//! HTTP.
//!
//! [`GeminiServer`] rejects the requests that Gemini rejects, with Gemini's error texts. It signs its function calls
//! and texts as Gemini does ([`thought_signature`]). As Gemini does, it checks the signatures of the current turn only:
//! it rejects a changed or moved signature, and a first function call of a step without one. It does not detect the
//! lost signature of a text, or a call of its own with the dummy signature for calls of other models. A test that must
//! detect them compares [`requests`](crate::vendor::VendorServer::requests) with the responses.

mod check;
mod embeddings;
mod error;
mod finish_reason;
mod part;
mod response;
mod route;
mod server;
mod signature;
mod usage;

pub use check::{check_embeddings_request, check_request};
pub use embeddings::embeddings_body;
pub use error::ApiError;
pub use finish_reason::finish_reason_to_wire;
pub use response::{json_body, sse_bytes};
pub use route::{Method, Platform, Route};
pub use server::{GeminiApi, GeminiServer, GeminiServerBuilder};
pub use signature::thought_signature;
