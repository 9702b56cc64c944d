//! The items that most programs need. Import them with `use neuron::prelude::*`.

#[doc(no_inline)]
pub use neuron_context::{SlidingWindowStrategy, TokenCounter};
#[doc(no_inline)]
pub use neuron_loop::{
    Agent, AgentLoop, AgentStream, Budget, Conversation, LoopConfig, OnLimit, RunEvent, RunResult,
    RunStream, Start, Step, StepIterator, ToolErrorPolicy, TurnResult,
};
#[cfg(all(feature = "runtime", not(target_family = "wasm")))]
#[doc(no_inline)]
pub use neuron_runtime::FileSessionStorage;
#[cfg(feature = "runtime")]
#[doc(no_inline)]
pub use neuron_runtime::{
    GuardrailHook, GuardrailResult, InMemorySessionStorage, InputGuardrail, LoopDetector,
    OutputGuardrail, PermissionRule, PermissionRules, Session, SessionStorage, TracingHook,
};
#[cfg(feature = "subagent")]
#[doc(no_inline)]
pub use neuron_subagent::{SubAgentConfig, SubAgentManager};
#[cfg(feature = "macros")]
#[doc(no_inline)]
pub use neuron_tool::RunTool;
#[doc(no_inline)]
pub use neuron_tool::{ToolRegistry, tool_middleware_fn};
#[doc(no_inline)]
pub use neuron_types::{
    AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse, ContentBlock,
    ContentItem, ContextStrategy, HookAction, HookError, HookEvent, LoopError, MainError, Message,
    Money, ObservabilityHook, PendingApproval, PermissionDecision, PermissionPolicy, Provider,
    ProviderError, Role, StopReason, StreamEvent, SystemPrompt, TokenUsage, ToolContext,
    ToolDefinition, ToolError, ToolOutput, UsageLimits,
};

// `Tool` is the trait and, with the feature `macros`, also the derive macro of this name.
#[doc(no_inline)]
pub use crate::tool::Tool;
#[cfg(feature = "macros")]
#[doc(no_inline)]
pub use crate::tool::neuron_tool;
