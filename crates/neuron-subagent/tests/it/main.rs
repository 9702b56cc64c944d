//! Sub-agents: what they do, and what passes between them and the run around them.

mod approvals;
mod hooks;
mod interrupted;
mod shared;
mod spawn;
mod support;
mod tools;
