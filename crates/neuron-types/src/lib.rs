//! The messages, requests, traits and errors that every neuron crate shares.
//!
//! Providers implement [`Provider`], tools implement [`Tool`], and strategies that shorten conversations implement
//! [`ContextStrategy`]. An agent loop combines them. This crate only defines the interfaces. It sends no request and
//! runs no agent.
//!
//! What a model's call needs is in the crate `neuron-model`, and all of it is re-exported here. A provider or a wrapper
//! of providers can depend on that crate alone.
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

// The order of the folders is error, tool, session, permission, approval, budget, context_strategy, layer, hook, run,
// durable, sandbox. A folder imports only from the folders before it. `secret_formats` stands alone.
mod approval;
mod budget;
mod context_strategy;
mod durable;
mod error;
mod hook;
mod layer;
mod permission;
mod run;
mod sandbox;
pub mod secret_formats;
mod session;
mod tool;

// A list of names would miss items of later versions.
#[doc(inline)]
pub use neuron_model::*;

pub use approval::{ApprovalSigner, ResumedApproval};
pub use budget::{
    Budget, BudgetSpending, ExceededLimit, LimitedResource, ParseLimitError, Reservation,
    UsageLimits,
};
pub use context_strategy::{BoxedStrategy, ContextStrategy, ContextStrategyDyn, NoCompaction};
pub use durable::{
    AgentPath, AgentTool, Durability, DurableAgent, DurableContext, DurableProvider, Start,
    ToolFuture, ToolInvocation, ToolSet, parse_signal,
};
pub use error::{
    ContextError, HookError, LoopError, MainError, McpError, PermissionRuleError, RegistryError,
    StorageError, SubAgentError,
};
pub use hook::{
    BoxedHook, CallScope, HookAction, HookAttachment, HookEvent, HookScope, InCallScope, InScopes,
    InjectionPoint, Injector, ObservabilityHook, Operation, OperationKind, OperationScope, Outcome,
    OuterCall, Scopes, TraceContext,
};
pub use layer::{
    BoxedLayer, BufferedDeltas, DeltaSink, DeltaSlot, ModelCall, ModelEndpoint, ModelLayer,
    ModelNext, ModelResponseFuture, PrepareTurn, Retry, RunView, TakeBack, TurnSetup,
};
pub use permission::{PermissionDecision, PermissionPolicy};
pub use run::{
    ActivityOptions, ApprovalSignal, CancelMode, EndStrategy, LoopConfig, OnLimit, OutputMode,
    RetryPolicy, RunSnapshot, ToolErrorPolicy,
};
pub use sandbox::{BoxedSandbox, Sandbox, SandboxError, SandboxLimit};
pub use session::{
    Session, SessionRevision, SessionState, SessionStorage, SessionSummary,
    VersionedSessionStorage, VersionedSessionStorageDyn, check_session_id, stored_json,
};
pub use tool::{
    CommandOutput, CommandStatus, Extensions, ProgressReporter, RunTools, Tool, ToolCommand,
    ToolContext, ToolDyn, ToolEffect, ToolFailure, UsageMeter,
};
