//! The code that the benchmarks and their tests measure, and its floors. A floor is minimal hand-written code for the
//! same work, for comparison.

pub mod first_token;
pub mod floor;
pub mod middleware;
pub mod parallel;
pub mod telemetry;
pub mod turn;

pub mod agents;
mod bare;
pub mod bridge;

pub mod request;
pub mod stream;

pub mod journal;
pub mod session;

pub mod comparison;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// The global allocator, which counts the allocations of every program that links this crate.
#[global_allocator]
pub static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
