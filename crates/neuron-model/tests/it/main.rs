//! Tests of the public types, in one binary, which is linked only once.

mod embedding_error;
mod error_record;
mod message;
mod provider;
mod provider_error;
mod stream;
mod usage;
