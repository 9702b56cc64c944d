//! Tests of sub-agents and of the data that passes between them and their parent runs.

mod approvals;
mod cache;
mod deferred;
mod hooks;
mod interrupted;
mod loop_detector;
mod shared;
mod spawn;
mod support;
mod tools;
