//! The messages, requests, traits and errors that every neuron crate shares.
//!
//! Providers implement [`Provider`], tools implement [`Tool`], and strategies that shorten conversations implement
//! [`ContextStrategy`]. An agent loop combines them. This crate only defines the interfaces. It sends no request and
//! runs no agent.
//!
//! ```
//! use neuron_types::{CompletionRequest, CompletionResponse, Message, Provider, ProviderError};
//!
//! /// Works with every provider.
//! async fn ask<P: Provider>(provider: &P, question: &str) -> Result<String, ProviderError> {
//!     let request = CompletionRequest {
//!         messages: vec![Message::user(question)],
//!         ..Default::default()
//!     };
//!     let response: CompletionResponse = provider.complete(request).await?;
//!     Ok(response.message.text())
//! }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a conversation | [`Message`], [`ContentBlock`], [`transcript`] |
//! | images and documents | [`ImageSource`], [`DocumentSource`] |
//! | a call of a model | [`CompletionRequest`], [`CompletionResponse`], [`Provider`], [`BoxedProvider`] |
//! | a streamed response | [`StreamHandle`], [`StreamReceiver`], [`StreamEvent`] |
//! | tools | [`Tool`], [`ToolDyn`], [`ToolContext`], [`ToolOutput`], [`PermissionPolicy`] |
//! | isolating tools | [`Sandbox`], [`ToolCommand`], [`CommandOutput`] |
//! | long conversations | [`ContextStrategy`], [`BoxedStrategy`], [`Message::pinned`], [`Injector`] |
//! | observing a run | [`ObservabilityHook`], [`HookEvent`], [`OperationScope`], [`TraceContext`] |
//! | recovery after a crash | [`DurableContext`], [`Durability`], [`DurableProvider`] |
//! | stored conversations | [`Session`], [`SessionStorage`], [`VersionedSessionStorage`], [`stored_json`] |
//! | limits on usage and cost | [`UsageLimits`], [`Budget`], [`Cost`], [`Money`], [`PriceList`] |
//! | removing secrets from texts | [`secret_formats`] |
//! | errors | [`ProviderError`], [`ToolError`], [`LoopError`] and the other error enums |
//! | wasm32 | [`WasmCompatSend`], [`WasmBoxedFuture`] |
//!
//! The traits use native `async` and are not object-safe. To choose an implementation at run time, use the `Boxed…`
//! types and [`Durability`]. These types allocate a box for each call.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod wasm;

mod marks;
mod media;
mod message;
mod model_content;
mod request;
mod request_ref;
mod request_settings;
mod response;
pub mod transcript;
mod usage;
mod usage_meter;

mod embedding;
mod provider;
mod stream;

mod arguments_schema;
mod command;
mod corrected_arguments;
mod deferred_call;
mod long_integers;
mod output_schema;
mod output_text;
mod permission;
mod read_json;
mod resource;
mod sandbox;
mod tool;
mod tool_arguments;
mod tool_context;
mod tool_failure;
mod tool_options;
mod trace_context;

mod agent;
mod agent_tool;
mod answer_metadata;
mod answer_route;
mod approval;
mod approval_id;
mod budget;
mod call_scope;
pub mod clock;
mod context_strategy;
mod cost;
mod delta_sink;
mod durability;
mod durable;
mod durable_agent;
mod durable_provider;
mod exceeded_limit;
mod history;
mod hook;
mod injector;
mod layer;
mod loop_choices;
mod loop_config;
mod money;
mod no_compaction;
mod prepare_turn;
mod price_list;
mod retry;
mod run_snapshot;
mod scope;
pub mod secret_formats;
mod session;
mod session_id;
mod session_storage;
pub mod stored_json;

mod error;

pub use agent::AgentResult;
pub use agent_tool::{AgentPath, AgentTool, ToolFuture, ToolSet};
pub use answer_metadata::AnswerMetadata;
pub use answer_route::{AnswerRoute, FailedRoute};
pub use approval::{
    ApprovalDecision, ApprovalDecisions, ApprovalSignature, ApprovalSigner, PendingApproval,
    PendingCall, ResumedApproval,
};
pub use arguments_schema::NotAnObject;
pub use budget::{Budget, BudgetSpending, Reservation};
pub use call_scope::{CallScope, InCallScope};
pub use command::{CommandOutput, CommandStatus, ToolCommand};
pub use context_strategy::{BoxedStrategy, ContextStrategy, ContextStrategyDyn};
pub use cost::Cost;
pub use deferred_call::{CALL_TOOL, RunTools, SEARCH_TOOLS, is_search_tool};
pub use delta_sink::{BufferedDeltas, DeltaSink, DeltaSlot};
pub use durability::Durability;
pub use durable::{ActivityOptions, DurableContext, RetryPolicy, ToolInvocation, parse_signal};
pub use durable_agent::{DurableAgent, Start};
pub use durable_provider::DurableProvider;
pub use embedding::{
    BoxedEmbeddingProvider, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage,
};
pub use error::{
    ApprovalError, ContextError, DurableError, EmbeddingError, ErrorRecord, HookError, LoopError,
    MainError, McpError, MediaError, PermissionRuleError, ProviderError, RegistryError,
    SandboxError, StorageError, StreamError, SubAgentError, ToolError, UncertainEffect, Unsent,
};
pub use exceeded_limit::{ExceededLimit, LimitedResource, ParseLimitError};
pub use history::{History, HistoryKey};
pub use hook::{
    BoxedHook, HookAction, HookAttachment, HookEvent, HookScope, ObservabilityHook, OuterCall,
};
pub use injector::{InjectionPoint, Injector};
pub use layer::{
    BoxedLayer, ModelCall, ModelEndpoint, ModelLayer, ModelNext, ModelResponseFuture, RunView,
    TakeBack,
};
pub use loop_choices::{
    ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, ToolErrorPolicy,
};
pub use loop_config::LoopConfig;
pub use message::{
    ContentBlock, ContentItem, DocumentSource, ImageSource, Message, Role, ToolUseRef,
};
pub use model_content::{ModelContent, image_type};
pub use money::{Money, ParseMoneyError};
pub use no_compaction::NoCompaction;
pub use output_schema::OutputSchema;
pub use output_text::json_in;
pub use permission::{PermissionDecision, PermissionPolicy};
pub use prepare_turn::{PrepareTurn, TurnSetup};
pub use price_list::{PriceList, UnknownPrice};
pub use provider::{BoxedProvider, ForcedCalls, Provider, ProviderDyn, ProviderInfo, RouteModel};
pub use read_json::{JsonMismatch, read_json, read_json_ref};
pub use request::{
    CacheControl, CacheTtl, CompletionRequest, ContextEdit, ContextManagement, ReasoningEffort,
    ResponseFormat, SystemBlock, SystemPrompt, ThinkingConfig, ToolChoice,
};
pub use request_ref::RequestRef;
pub use request_settings::RequestSettings;
pub use resource::{EmbeddedResource, ResourceLink};
pub use response::{CompletionResponse, EMPTY_ANSWER, StopReason};
pub use retry::{Backoff, Retry};
pub use run_snapshot::{KnownEffect, RunSnapshot};
pub use sandbox::{BoxedSandbox, Sandbox, SandboxLimit};
pub use scope::{InScopes, Operation, OperationKind, OperationScope, Outcome, Scopes};
pub use session::{Session, SessionState, SessionSummary};
pub use session_id::check_session_id;
pub use session_storage::{
    SessionRevision, SessionStorage, VersionedSessionStorage, VersionedSessionStorageDyn,
};
pub use stream::{
    Progress, ResponseEnd, StreamEvent, StreamHandle, StreamReceiver, message_events,
};
pub use tool::{Tool, ToolAnnotations, ToolCall, ToolDefinition, ToolDyn, ToolEffect, ToolOutput};
pub use tool_context::{Extensions, ProgressReporter, ToolContext};
pub use tool_failure::ToolFailure;
pub use trace_context::TraceContext;
pub use usage::{TokenUsage, UsageIteration, UsageLimits};
pub use usage_meter::UsageMeter;
pub use wasm::{BoxError, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend, WasmCompatSync};
