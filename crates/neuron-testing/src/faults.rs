//! Tests of agents under faults such as crashes of the process and errors of the model.
//!
//! A [`FaultTest`] runs an agent with its tools a thousand times, each time with other faults. It compares each run
//! with a run without faults, and reports the broken [promises](BrokenPromise). The seed of a run determines its
//! faults. The seeds are 1, 2 and so on, so each execution of a test injects the same faults.
//!
//! | fault | injected by |
//! |---|---|
//! | overload, rate limit, timeout, broken connection, malformed body | [`Trial::provider`] |
//! | a stream that breaks or is slow | [`Trial::provider`] |
//! | a crash before, inside or after a tool call | [`Trial::tool`], in a durable run |
//! | a crash before or after a step of the journal | [`Trial::context`], in a durable run |
//!
//! An injected crash drops the future of the run, and starts the run again. The run loses everything in memory. To test
//! that files survive a killed process or a power failure, use the test suites of the storage or of the durable engine.
//!
//! # Example
//!
//! The section "Tests under faults" of `neuron-durable-sqlite` has a complete test. Its tool charges a card, and passes
//! the idempotency key of the call to the payment service.
//!
//! If the tool ignores the key, the test fails and names a seed:
//!
//! ```text
//! - effect_repeated in 214 runs: the effect "charge 500" happened 2 times and not 1
//!   repeat it with `.seed(9).runs(1)`; faults: a crash at boundary 9, the end of the tool `charge`
//! ```
//!
//! The test finds a repeated effect only if [`Trial::effects`] lists it.
//!
//! # Limits
//!
//! - Faults are injected at the traits of neuron. To test the bytes of an HTTP response, use a
//!   [server](crate::vendor::VendorServer) with [`ServerReply`](crate::ServerReply).
//! - A crash cannot interrupt code between two waits, because a dropped future stops only where it waits.
//! - A tool that implements [`neuron_types::AgentTool`] runs an agent. Wrap the provider and the tools of that agent
//!   too.

mod context;
mod plan;
mod promise;
mod provider;
mod report;
mod runner;
mod tool;
mod trial;

pub use context::FaultyContext;
pub use promise::BrokenPromise;
pub use provider::FaultyProvider;
pub use report::{BrokenRun, Report};
pub use runner::FaultTest;
pub use trial::Trial;
