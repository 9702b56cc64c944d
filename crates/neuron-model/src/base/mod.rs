//! What the other folders are built from and knows nothing of models: bounds for wasm, the clock, delays, JSON.

mod backoff;
pub mod clock;
pub(crate) mod long_integers;
mod read_json;
mod wasm;

pub use backoff::Backoff;
pub use read_json::{JsonMismatch, read_json, read_json_ref};
pub use wasm::{BoxError, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend, WasmCompatSync};
