//! The errors of a run and of its parts. Each crate converts the errors of its own dependencies into these enums, in its
//! file `error.rs`. The errors of a model's calls are in `neuron-model`.

mod agent_loop;
mod main_error;
mod mcp;
mod permission;
mod storage;
mod stream;
mod sub_agent;
mod tool;

pub use agent_loop::{ContextError, HookError, LoopError};
pub use main_error::MainError;
pub use mcp::McpError;
pub use permission::PermissionRuleError;
pub use storage::StorageError;
pub use sub_agent::SubAgentError;
pub use tool::RegistryError;
