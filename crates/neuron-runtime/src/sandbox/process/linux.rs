//! Confinement of programs on Linux without `unsafe`. A thread confines itself and starts the program, which
//! inherits the confinement, as does everything that the program starts.

use std::fmt;

use neuron_types::SandboxError;

use super::{Limits, Settings};

mod cgroup;
mod confine;
mod counting;
mod cpu_times;
mod disk;
mod filter;
mod gate;
mod group;
mod members;
mod output;
mod program;
mod requirements;
mod run;
mod watch;

pub(super) use run::Ready;

/// Returns an error of the setup with the failed operation.
fn setup_failed(what: impl fmt::Display, error: impl fmt::Display) -> SandboxError {
    SandboxError::SetupFailed(format!("{what}: {error}"))
}
