//! The Responses API: the same three parts as Chat Completions has beside this folder.
//! <https://platform.openai.com/docs/api-reference/responses>
//!
//! An answer is a list of items. Each is kept whole, as [`ContentBlock::Raw`] with its meaning beside
//! it, because reasoning goes back only together with the very items that followed it.
//! `items.rs` matches the events of a stream to its items.
//!
//! [`ContentBlock::Raw`]: neuron_types::ContentBlock::Raw

mod echo;
mod items;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;
