//! The process sandbox against programs that attack it, and with programs that only want to work.
#![cfg(target_os = "linux")]

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
