//! The HTTP layer of neuron's providers.
//!
//! The crate contains endpoints with timeouts, response bodies that are read in chunks, and decoders of server-sent
//! events and JSON lines. It redacts API keys, and converts error responses into
//! [`ProviderError`](neuron_model::ProviderError). It serialises requests without copying the conversation.
//!
//! Headers and URLs have the types of the crate [`http`]. A single private table contains the vendors' error codes and
//! messages.
//!
//! # HTTP
//!
//! - Over TLS, HTTP/2 is used if the server offers it, and otherwise HTTP/1.1. Requests at the same time share a
//!   connection up to the server's limit, and at most 128.
//! - Bodies that a server compresses with gzip or deflate are decoded, although no request asks for it.
//! - Redirects are not followed. An error names the target.
//! - A response has at most 100 headers and 408 KiB of headers.
//!
//! With a client of your own ([`Endpoint::with_client`]), the client decides about HTTP/2, redirects and headers.
//!
//! # Types
//!
//! | task | types |
//! |---|---|
//! | sending a request | [`Endpoint`], [`BaseUrl`], [`write_json`], [`RequestBody`] |
//! | limits of a vendor for requests | [`RequestLimits`] |
//! | reading the response | [`Reply`], [`Body`] |
//! | ids of other vendors' tool calls in a request | [`CallIds`], [`UniqueTexts`] |
//! | files in a request | [`inline_data`], [`is_common_image`] |
//! | names of tools that a vendor rejects | [`ToolNames`], [`OriginalNames`], [`ascii_name`] |
//! | schemas of arguments that a vendor rejects | [`tool_schema`], [`without_references`] |
//! | a streamed response | [`AnswerStream`], [`Decoder`], [`SseDecoder`], [`LineDecoder`] |
//! | a status that is not a success | [`Rejection`], [`VendorError`], [`retry_after`] |
//! | keys | [`Secret`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod base_url;
#[cfg_attr(target_family = "wasm", path = "fetch.rs")]
mod client;
#[cfg(not(target_family = "wasm"))]
mod connect;
mod deadline;
mod endpoint;
#[cfg(not(target_family = "wasm"))]
mod http2;
#[cfg(not(target_family = "wasm"))]
mod idle;
mod transport;

mod call_ids;
mod data_url;
mod json_body;
mod lenient;
mod references;
mod request_body;
mod request_limits;
mod tool_names;
mod tool_positions;
mod tool_schema;
mod unique_texts;

mod body;
mod chunks;
mod content;
mod fault;
mod headers;
mod named_delay;
mod rejection;
mod reply;
mod vendor_error;
mod wrong_url;

mod answer_stream;
mod framing;
mod lines;
mod sse;

mod key_source;
mod secret;

pub use answer_stream::{AnswerStream, Decoder, complete};
pub use base_url::BaseUrl;
pub use body::Body;
pub use call_ids::CallIds;
pub use client::HttpClient;
pub use data_url::{inline_data, is_common_image};
pub use endpoint::Endpoint;
pub use framing::{Framing, read_frame, read_with_arguments};
pub use headers::{header, header_value, retry_after};
pub use http;
pub use json_body::{Fields, ObjectInput, Shortest, VendorFields, sorted_extra, write_json};
pub use key_source::KeySource;
pub use lenient::{newer_count, or_default};
pub use lines::LineDecoder;
pub use references::without_references;
pub use rejection::Rejection;
pub use reply::Reply;
pub use request_body::RequestBody;
pub use request_limits::RequestLimits;
pub use secret::Secret;
pub use sse::SseDecoder;
pub use tool_names::{OriginalNames, RenamedRequest, ToolNames, ascii_name};
pub use tool_schema::tool_schema;
pub use unique_texts::UniqueTexts;
pub use vendor_error::VendorError;
