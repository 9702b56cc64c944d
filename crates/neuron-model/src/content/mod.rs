//! Conversations: messages and their content, and the rules of a valid conversation.

pub(crate) mod marks;
mod media;
pub(crate) mod message;
pub(crate) mod model_content;
mod resource;
mod tool_call;
pub mod transcript;

pub use message::{
    ContentBlock, ContentItem, DocumentSource, ImageSource, Message, Role, ToolUseRef,
};
pub use model_content::{ModelContent, image_type};
pub use resource::{EmbeddedResource, ResourceLink};
pub use tool_call::{ToolCall, ToolOutput};
