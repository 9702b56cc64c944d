//! Sessions, guardrails, permission rules, sandboxes and logs for agents in production.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | conversations that outlive the process | [`Session`], [`SessionStorage`], [`VersionedSessionStorage`] |
//! | storages for sessions, in memory or in files | [`InMemorySessionStorage`], [`FileSessionStorage`] |
//! | checks of a model's input and output | [`InputGuardrail`], [`OutputGuardrail`], [`GuardrailHook`] |
//! | ends of runs that repeat the same tool calls | [`LoopDetector`] |
//! | reports of model calls that missed the vendor's prompt cache | [`CacheMissDetector`] |
//! | logs and traces of an agent's runs | [`TracingHook`] |
//! | rules that allow or deny tool calls | [`PermissionRules`], [`CombinedPolicy`] |
//! | signatures on calls that wait for an approval | `ApprovalKey` (feature `signed-approvals`) |
//! | a durable context for development on one machine, without an engine | [`LocalDurableContext`], [`LocalSignals`] |
//! | listing, inspecting, cancelling and signalling the runs of a durable engine | [`DurableRuns`] |
//! | adapters for durable engines | [`StepRecord`], [`RequestLog`], [`EffectKeys`], [`effect_of`], [`EffectScope`], [`ToolRequest`], [`llm_digest`], [`tool_digest`], [`execute_as_batch`], `while_held` |
//! | tools that run programs, and sandboxes for these programs | [`Sandbox`], [`CommandTool`], [`NoOpSandbox`], `ProcessSandbox` (feature `process-sandbox`) |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(not(target_family = "wasm"))]
mod file_sessions;
mod in_memory_sessions;

#[cfg(feature = "signed-approvals")]
mod approval_key;
mod asked;
mod batch_of_one;
mod cache_miss_detector;
mod combined_policy;
mod digest;
mod effect_keys;
mod guardrail;
mod guardrail_hook;
mod guardrail_text;
#[cfg(not(target_family = "wasm"))]
mod lease;
mod local_durable;
mod loop_detector;
mod permission_rules;
mod runs;
mod steps;
mod tracing_hook;

#[cfg(feature = "signed-approvals")]
pub use approval_key::ApprovalKey;
pub use asked::{Asked, ChangedAgent, RequestLog};
pub use batch_of_one::execute_as_batch;
pub use cache_miss_detector::{
    CacheMiss, CacheMissCause, CacheMissDetector, CachedModel, PrefixChange, PrefixPart,
};
pub use combined_policy::CombinedPolicy;
pub use digest::{check_tool_call, llm_digest, recorded_digest, tool_digest};
pub use effect_keys::{EffectKeys, effect_of};
#[cfg(not(target_family = "wasm"))]
pub use file_sessions::FileSessionStorage;
pub use guardrail::{
    ErasedInputGuardrail, ErasedOutputGuardrail, GuardrailResult, InputGuardrail, OutputGuardrail,
    run_input_guardrails, run_output_guardrails,
};
pub use guardrail_hook::{GuardrailHook, GuardrailHookBuilder};
pub use in_memory_sessions::InMemorySessionStorage;
#[cfg(not(target_family = "wasm"))]
pub use lease::{Moment, while_held};
pub use local_durable::{LocalDurableContext, LocalSignals};
pub use loop_detector::{LoopDetector, LoopThresholds};
pub use neuron_sandbox::{CommandTool, Confined, NoOpSandbox};
#[cfg(feature = "process-sandbox")]
pub use neuron_sandbox::{Confinement, ProcessCounting, ProcessSandbox, ProcessSandboxBuilder};
pub use neuron_types::{
    Sandbox, Session, SessionRevision, SessionState, SessionStorage, SessionSummary,
    VersionedSessionStorage, check_session_id,
};
pub use permission_rules::{
    AnnotationCondition, ArgumentCondition, ArgumentPattern, PermissionEffect, PermissionRule,
    PermissionRules,
};
pub use runs::{DurableRuns, RunStatus, RunSummary, RunsError, WaitEvent, WaitsFor};
pub use steps::{
    DEFAULT_RECORD_LIMIT, EffectScope, StepRecord, ToolRequest, UnknownOutcome, outcome_unknown,
};
pub use tracing_hook::TracingHook;
