//! Tests of the public API for driving, killing and listing runs, and of damaged files.

mod agent_version;
mod backup;
mod cancelled;
mod changed_agent;
mod conformance;
mod cost;
mod crash;
mod damage;
mod damaged_files;
mod deferred_tools;
mod faults;
#[cfg(unix)]
mod full;
mod killed;
mod late_approvals;
#[cfg(unix)]
mod lease;
mod lock;
mod loop_detector;
mod many;
mod nested_approval;
mod nested_effects;
mod nested_retry;
mod pool;
mod refused;
mod replay;
mod size;
mod support;
