//! The error enums that all neuron crates share. Each crate converts the errors of its own dependencies into these
//! enums, in its file `error.rs`.

mod agent_loop;
mod approval;
mod durable;
mod embedding;
mod main_error;
mod mcp;
mod media;
mod permission;
mod provider;
mod record;
mod runtime;
mod stream;
mod sub_agent;
mod tool;

pub use agent_loop::{ContextError, HookError, LoopError};
pub use approval::ApprovalError;
pub use durable::DurableError;
pub use embedding::EmbeddingError;
pub use main_error::MainError;
pub use mcp::McpError;
pub use media::MediaError;
pub use permission::PermissionRuleError;
pub use provider::{ProviderError, Unsent};
pub use record::ErrorRecord;
pub use runtime::{SandboxError, StorageError};
pub use stream::StreamError;
pub use sub_agent::SubAgentError;
pub use tool::{RegistryError, ToolError, UncertainEffect};
