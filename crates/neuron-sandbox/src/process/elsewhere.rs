//! The sandbox on systems other than 64-bit Linux, which refuses every program.

use std::convert::Infallible;

use neuron_types::{CommandOutput, SandboxError, ToolCommand, ToolContext};

use super::{Confinement, ProcessCounting, Settings};

/// A type without values, because no sandbox can be created on this system.
#[derive(Clone)]
pub(super) struct Ready(Infallible);

impl Ready {
    pub(super) fn new(_settings: Settings) -> Result<Self, SandboxError> {
        Err(SandboxError::SetupFailed(
            "programs can be confined on Linux on x86-64, AArch64 or RISC-V 64 only".to_owned(),
        ))
    }

    pub(super) fn is_strict(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn confinement(&self) -> Confinement {
        match self.0 {}
    }

    pub(super) fn process_counting(&self) -> ProcessCounting {
        match self.0 {}
    }

    pub(super) async fn run(
        &self,
        _command: ToolCommand,
        _ctx: &ToolContext,
    ) -> Result<CommandOutput, SandboxError> {
        match self.0 {}
    }
}
