//! Requests to a model: settings, definitions of tools, and the schema of an output.

mod arguments_schema;
mod completion_request;
mod corrected_arguments;
mod deferred_call;
mod history;
pub(crate) mod output_schema;
mod output_text;
mod request_ref;
mod request_settings;
mod tool_definition;
pub(crate) mod tool_options;

pub use arguments_schema::NotAnObject;
pub use completion_request::{
    CacheControl, CacheTtl, CompletionRequest, ContextEdit, ContextManagement, ReasoningEffort,
    ResponseFormat, SystemBlock, SystemPrompt, ThinkingConfig, ToolChoice,
};
pub use deferred_call::{CALL_TOOL, SEARCH_TOOLS, is_search_tool};
pub use history::{History, HistoryKey};
pub use output_schema::OutputSchema;
pub use output_text::json_in;
pub use request_ref::RequestRef;
pub use request_settings::RequestSettings;
pub use tool_definition::{ToolAnnotations, ToolDefinition};
