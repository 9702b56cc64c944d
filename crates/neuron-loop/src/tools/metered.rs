//! Counting the tokens that tools take.

use std::ops::{Deref, DerefMut};

use neuron_types::{TokenUsage, UsageMeter};

use crate::ledger::Ledger;
use crate::parts::Env;

/// A ledger while a run is driven. Dropping it counts the tokens that tools took, so however the run ends: with an answer,
/// an error, or its future dropped.
pub(crate) struct Metered<'l, 'a> {
    ledger: &'l mut Ledger,
    env: Env<'a>,
}

impl<'l, 'a> Metered<'l, 'a> {
    pub(crate) fn new(ledger: &'l mut Ledger, env: Env<'a>) -> Self {
        Self { ledger, env }
    }
}

impl Drop for Metered<'_, '_> {
    fn drop(&mut self) {
        count_tool_usage(&self.env, self.ledger);
    }
}

/// Counts the tokens that tools took since this was last done.
pub(crate) fn count_tool_usage(env: &Env<'_>, ledger: &mut Ledger) {
    let usage = env.run.tool_meter.take();
    if usage != TokenUsage::default() {
        env.ctx.usage.add(&usage);
        ledger.tally.add_tool_usage(&usage);
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
        self.call.hand_on(self.run);
    }
}
