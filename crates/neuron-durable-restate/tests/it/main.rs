//! Tests with an agent on a real Restate server, in child processes that are killed.

mod http;
mod model;
mod proxy;
mod scene;
mod service;

mod approvals;
mod conformance;
mod continuing;
mod crashes;
mod fencing;
mod late_approvals;
mod operating;
mod reading;
mod running;
mod signals;
mod suite;
mod versions;
