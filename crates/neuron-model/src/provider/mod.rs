//! The traits of providers, and the streams that they return.

mod embedding;
mod model_provider;
mod stream;

pub use embedding::{
    BoxedEmbeddingProvider, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage,
};
pub use model_provider::{
    BoxedProvider, ForcedCalls, Provider, ProviderDyn, ProviderInfo, RouteModel,
};
pub use stream::{
    Progress, ResponseEnd, StreamEvent, StreamHandle, StreamReceiver, message_events,
};
