//! An agent on the real Restate server, in processes that are killed.

mod http;
mod model;
mod scene;
mod service;

mod approvals;
mod conformance;
mod continuing;
mod crashes;
mod running;
mod signals;
mod suite;
