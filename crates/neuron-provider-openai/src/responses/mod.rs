//! Requests, responses and streams of the Responses API.
//!
//! <https://platform.openai.com/docs/api-reference/responses>
//!
//! A response is a list of items. The API accepts reasoning only together with the items that followed it. Each item is
//! therefore kept whole, as a [`ContentBlock::Raw`]. The raw block also contains a portable block for other providers.
//! The module `items` assigns the events of a stream to their items.
//!
//! [`ContentBlock::Raw`]: neuron_model::ContentBlock::Raw

mod echo;
mod items;
pub(crate) mod request;
pub(crate) mod response;
mod search;
pub(crate) mod stream;
