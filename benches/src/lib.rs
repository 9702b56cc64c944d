//! What the benchmarks share: an agent in this process that calls one tool a turn, and the same by
//! hand as the floor.

pub mod floor;
pub mod turn;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Every program that links this crate counts its allocations.
#[global_allocator]
pub static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
