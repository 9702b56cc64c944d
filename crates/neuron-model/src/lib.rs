//! The messages, requests, responses and errors of a model's calls, and the traits of providers.
//!
//! A provider implements [`Provider`] or [`EmbeddingProvider`]. A wrapper, such as a router, implements the trait over
//! another provider. Such crates need only this one. `neuron-types` re-exports it and adds the contracts of an agent's
//! run: tools, hooks, layers, budgets, durable contexts and sessions.
//!
//! ```
//! use neuron_model::{CompletionRequest, CompletionResponse, Message, Provider, ProviderError};
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
//! | a call of a model | [`CompletionRequest`], [`RequestRef`], [`CompletionResponse`], [`Provider`], [`BoxedProvider`] |
//! | the tools of a request | [`ToolDefinition`], [`ToolCall`], [`ToolOutput`] |
//! | a typed output | [`OutputSchema`], [`json_in`] |
//! | a streamed response | [`StreamHandle`], [`StreamReceiver`], [`StreamEvent`] |
//! | embeddings | [`EmbeddingProvider`], [`EmbeddingRequest`], [`EmbeddingResponse`] |
//! | usage and cost | [`TokenUsage`], [`Cost`], [`Money`], [`PriceList`] |
//! | the end of a run, as streams carry it | [`AgentResult`], [`PendingApproval`], [`RunError`] |
//! | errors | [`ProviderError`], [`EmbeddingError`], [`StreamError`], [`ErrorRecord`] |
//! | wasm32 | [`WasmCompatSend`], [`WasmBoxedFuture`] |
//!
//! The traits use native `async` and are not object-safe. To choose a provider at run time, use [`BoxedProvider`] or
//! [`BoxedEmbeddingProvider`]. These types allocate a box for each call.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

// The order of the folders is base, error, content, request, response, outcome, provider. A folder imports only from the
// folders before it.
mod base;
mod content;
mod error;
mod outcome;
mod provider;
mod request;
mod response;

pub use base::{
    Backoff, BoxError, JsonMismatch, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend,
    WasmCompatSync, clock, read_json, read_json_ref,
};
pub use content::{
    ContentBlock, ContentItem, DocumentSource, EmbeddedResource, ImageSource, Message,
    ModelContent, ResourceLink, Role, ToolCall, ToolOutput, ToolUseRef, image_type, transcript,
};
pub use error::{
    EmbeddingError, ErrorRecord, HoldsRunError, MediaError, ProviderError, RunError, StreamError,
    Unsent,
};
pub use outcome::{
    AgentResult, ApprovalDecision, ApprovalDecisions, ApprovalError, ApprovalSignature,
    DurableError, KnownEffect, PendingApproval, PendingCall, ToolError, UncertainEffect,
};
pub use provider::{
    BoxedEmbeddingProvider, BoxedProvider, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    EmbeddingUsage, ForcedCalls, Progress, Provider, ProviderDyn, ProviderInfo, ResponseEnd,
    RouteModel, StreamEvent, StreamHandle, StreamReceiver, message_events,
};
pub use request::{
    CALL_TOOL, CacheControl, CacheTtl, CompletionRequest, ContextEdit, ContextManagement, History,
    HistoryKey, NotAnObject, OutputSchema, ReasoningEffort, RequestRef, RequestSettings,
    ResponseFormat, SEARCH_TOOLS, SystemBlock, SystemPrompt, ThinkingConfig, ToolAnnotations,
    ToolChoice, ToolDefinition, is_search_tool, json_in,
};
pub use response::{
    AnswerMetadata, AnswerRoute, CompletionResponse, Cost, EMPTY_ANSWER, FailedRoute, Money,
    ParseMoneyError, PriceList, StopReason, TokenUsage, UnknownPrice, UsageIteration,
};
