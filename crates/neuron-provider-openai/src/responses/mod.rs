//! Requests, responses and streams of the Responses API.
//!
//! <https://platform.openai.com/docs/api-reference/responses>
//!
//! A response is a list of items. Each item is kept whole, as a [`ContentBlock::Raw`] with a portable block beside it,
//! because the API accepts reasoning only together with the items that followed it. The module `items` assigns the
//! events of a stream to its items.
//!
//! [`ContentBlock::Raw`]: neuron_types::ContentBlock::Raw

mod echo;
mod items;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;
