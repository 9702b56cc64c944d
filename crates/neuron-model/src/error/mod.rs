//! The errors of calls of a model.

mod embedding;
mod media;
mod provider;
mod record;
mod stream;

pub use embedding::EmbeddingError;
pub use media::MediaError;
pub use provider::{ProviderError, Unsent};
pub use record::ErrorRecord;
pub use stream::{HoldsRunError, RunError, StreamError};
