//! The common code of the benchmarks, which is the measured work and its floor. A floor is the same work in minimal
//! hand-written code.

pub mod first_token;
pub mod floor;
pub mod middleware;
pub mod parallel;
pub mod telemetry;
pub mod turn;

pub mod agents;
pub mod bridge;

pub mod request;
pub mod stream;

pub mod journal;
pub mod session;

pub mod comparison;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Every program that links this crate counts its allocations.
#[global_allocator]
pub static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
