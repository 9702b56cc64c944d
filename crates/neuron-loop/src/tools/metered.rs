//! Counting the tokens that tools take.

use std::ops::{Deref, DerefMut};

use neuron_types::{TokenUsage, UsageMeter};

use crate::ledger::Ledger;
use crate::parts::Env;

/// A ledger while tools run. Dropping it counts the tokens that they took, so however a batch ends: finished, failed,
/// cancelled, or with its future dropped.
pub(crate) struct Metered<'l, 'a> {
    ledger: &'l mut Ledger,
    meter: &'a UsageMeter,
    outer: &'a UsageMeter,
}

impl<'l, 'a> Metered<'l, 'a> {
    pub(crate) fn new(ledger: &'l mut Ledger, env: &Env<'a>) -> Self {
        Self { ledger, meter: &env.run.tool_meter, outer: &env.ctx.usage }
    }
}

impl Drop for Metered<'_, '_> {
    fn drop(&mut self) {
        let usage = self.meter.take();
        if usage != TokenUsage::default() {
            self.outer.add(&usage);
            self.ledger.add_tool_usage(&usage);
        }
    }
}

impl Deref for Metered<'_, '_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.ledger
    }
}

impl DerefMut for Metered<'_, '_> {
    fn deref_mut(&mut self) -> &mut Ledger {
        self.ledger
    }
}

/// The meter of one call. Dropping it hands its tokens on to the run, however the call ends.
pub(crate) struct CallMeter<'a> {
    pub(crate) call: UsageMeter,
    pub(crate) run: &'a UsageMeter,
}

impl Drop for CallMeter<'_> {
    fn drop(&mut self) {
        let usage = self.call.take();
        if usage != TokenUsage::default() {
            self.run.add(&usage);
        }
    }
}
