//! Sessions, guardrails, permission rules, sandboxes and logs for agents in production.
//!
//! The crate re-exports `neuron-sandbox`, and `neuron-durable` with the parts that all durable engines share.
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
//! | engines of your own for durable runs | the crate `neuron-durable`: [`StepRecord`], [`RequestLog`], [`EffectKeys`], `while_held` |
//! | tools that run programs, and sandboxes for these programs | [`Sandbox`], [`CommandTool`], [`NoOpSandbox`], `ProcessSandbox` (feature `process-sandbox`) |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(not(target_family = "wasm"))]
mod file_sessions;
mod in_memory_sessions;

#[cfg(feature = "signed-approvals")]
mod approval_key;
mod cache_miss_detector;
mod combined_policy;
mod guardrail;
mod guardrail_hook;
mod guardrail_text;
mod loop_detector;
mod permission_rules;
mod tracing_hook;

#[cfg(feature = "signed-approvals")]
pub use approval_key::ApprovalKey;
pub use cache_miss_detector::{
    CacheMiss, CacheMissCause, CacheMissDetector, CachedModel, PrefixChange, PrefixPart,
};
pub use combined_policy::CombinedPolicy;
#[cfg(not(target_family = "wasm"))]
pub use file_sessions::FileSessionStorage;
pub use guardrail::{
    ErasedInputGuardrail, ErasedOutputGuardrail, GuardrailResult, InputGuardrail, OutputGuardrail,
    run_input_guardrails, run_output_guardrails,
};
pub use guardrail_hook::{GuardrailHook, GuardrailHookBuilder};
pub use in_memory_sessions::InMemorySessionStorage;
pub use loop_detector::{LoopDetector, LoopThresholds};
#[doc(inline)]
pub use neuron_durable::*;
#[doc(inline)]
pub use neuron_sandbox::*;
pub use neuron_types::{
    Session, SessionRevision, SessionState, SessionStorage, SessionSummary,
    VersionedSessionStorage, check_session_id,
};
pub use permission_rules::{
    AnnotationCondition, ArgumentCondition, ArgumentPattern, PermissionEffect, PermissionRule,
    PermissionRules,
};
pub use tracing_hook::TracingHook;
