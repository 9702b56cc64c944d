//! Confines programs on Linux without `unsafe`. A thread confines itself and then starts the program. The program and
//! its children inherit the confinement.

use std::fmt;

use neuron_types::SandboxError;

use super::{Limits, Settings};

mod cgroup;
mod confine;
mod counting;
mod cpu_times;
mod disk;
mod filter;
mod group;
mod launcher;
mod members;
mod output;
mod program;
mod requirements;
mod run;
mod watch;

pub(super) use run::Ready;

/// Returns a setup error, with the failed operation `what` before the cause.
fn setup_failed(what: impl fmt::Display, error: impl fmt::Display) -> SandboxError {
    SandboxError::SetupFailed(format!("{what}: {error}"))
}
