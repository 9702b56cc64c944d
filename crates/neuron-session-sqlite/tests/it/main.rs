//! Tests of the storage with the conformance suite, killed processes, concurrent processes and damaged files.

mod backup;
mod conformance;
mod cost;
mod damage;
mod killed;
mod processes;
mod rows;
mod support;
mod trials;
mod versions;
