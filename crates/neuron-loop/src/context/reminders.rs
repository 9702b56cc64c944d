//! Asking the injectors before a call of the model.

use neuron_types::{InjectionPoint, SessionState};

use crate::ledger::Ledger;
use crate::parts::Env;

/// Adds the system messages that injectors want before the next call of the model.
pub(crate) fn remind(env: &Env<'_>, ledger: &mut Ledger) {
    let injectors = &env.parts.definition.injectors;
    // A turn that the provider paused goes on where it stopped.
    if injectors.is_empty() || ledger.is_paused() {
        return;
    }
    let given = env.ctx.extensions.get::<SessionState>();
    let state = given.cloned().unwrap_or_else(|| SessionState {
        cwd: env.ctx.cwd.clone(),
        token_usage: ledger.tally.total_usage.clone(),
        event_count: ledger.tally.turns as u64,
        ..SessionState::default()
    });
    let tokens = env.current_tokens(ledger);
    let point = InjectionPoint::new(ledger.tally.turns, tokens, &state, &ledger.messages);
    let texts: Vec<String> =
        injectors.iter().flat_map(|injector| injector.injections(&point)).collect();
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        ledger.remind(text);
    }
}
