//! Tests of the process sandbox with programs that attack it, and with programs that must work in it.

#![cfg(all(target_os = "linux", feature = "process-sandbox"))]

mod attacker;
mod ends;
mod files;
mod fork_bomb;
mod limits;
mod network;
mod processes;
mod programs;
mod refusals;
mod support;
