//! Calls the injectors before a model call.

use neuron_types::{InjectionPoint, SessionState};

use crate::ledger::Ledger;
use crate::parts::Env;

/// Adds the texts of the injectors to the conversation as system messages. Called before each model call.
pub(crate) fn remind(env: &Env<'_>, ledger: &mut Ledger) {
    let injectors = &env.parts.definition.derived().injectors;
    // The provider continues a paused turn only if the paused message is the last one.
    // FAULT a paused turn is reminded: without `|| ledger.is_paused()`
    if injectors.is_empty() || ledger.is_paused() {
        return;
    }
    let given = env.ctx.extensions.get::<SessionState>();
    let state = given.cloned().unwrap_or_else(|| SessionState {
        cwd: env.ctx.cwd.clone(),
        token_usage: ledger.tally().total_usage.clone(),
        event_count: ledger.tally().turns as u64,
        ..SessionState::default()
    });
    let tokens = env.current_tokens(ledger);
    // FAULT reminders count the turns of one run: `tally().turns` -> `tally().run.turns`
    let point = InjectionPoint::new(ledger.tally().turns, tokens, &state, ledger.messages());
    let point = point.in_run(ledger.tally().run.turns, env.run_tools());
    let texts: Vec<String> =
        injectors.iter().flat_map(|injector| injector.injections(&point)).collect();
    // FAULT an empty reminder is said: `!text.is_empty()` -> `true` (reminders::repeated_call_has_one_reminder)
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        ledger.remind(text);
    }
}
