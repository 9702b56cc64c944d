//! Compaction of the conversation by the context strategy, and system messages that injectors add to it.

use neuron_types::{
    ContextError, HookEvent, InjectionPoint, LoopError, OperationKind, Outcome, RequestRef,
    SessionState, TokenUsage, UnknownPrice,
};

use crate::ledger::{KnownSize, Ledger};
use crate::parts::{Env, or_cancelled};

/// Number of tokens of a conversation before and after its compaction.
type Sizes = (usize, usize);

/// Compacts the history if the strategy requires it and the [budget allows it](fits_budget). Returns `None` if the
/// history did not become shorter.
pub(crate) async fn compact_if_needed(
    env: &Env<'_>,
    ledger: &mut Ledger,
) -> Result<Option<Sizes>, LoopError> {
    let sent_frame = ledger.size().and_then(|size| size.frame);
    if sent_frame.is_some_and(|sent| Some(sent) != env.counted_frame()) {
        // The system prompt or the tools have changed since the provider reported the size. An earlier failure to
        // compact says nothing about the new ones.
        ledger.put_off_no_more();
    }
    let request = env.request(ledger.messages());
    let old_tokens = env.tokens_of(request, ledger.size());
    if ledger.puts_off_compaction(old_tokens)
        || !env.parts.strategy.should_compact_request_dyn(request, old_tokens)
        || !fits_budget(env, request)
    {
        return Ok(None);
    }
    let compacted = compact(env, ledger, old_tokens, old_tokens).await?;
    if compacted.is_none() {
        ledger.not_compacted(old_tokens);
    }
    Ok(compacted)
}

/// Compacts the history after a model call did not fit into the context window. Returns `None` if the call should not
/// be repeated. This happens in three cases:
///
/// - The previous call did not fit either.
/// - The strategy failed, or did not shorten the history.
/// - The [budget does not allow](fits_budget) a compaction.
pub(crate) async fn make_room(
    env: &Env<'_>,
    ledger: &mut Ledger,
) -> Result<Option<Sizes>, LoopError> {
    let is_first = ledger.may_make_room();
    let request = env.request(ledger.messages());
    if !is_first || !fits_budget(env, request) {
        return Ok(None);
    }
    let old_tokens = env.tokens_of(request, ledger.size());
    // The estimate is too small, because the provider reported that the conversation is too long. It is doubled until
    // the strategy wants to compact at this size.
    let mut sizes = std::iter::successors(Some(old_tokens.max(1)), |size| size.checked_mul(2));
    let is_enough = |size: &usize| env.parts.strategy.should_compact_request_dyn(request, *size);
    let told_tokens = sizes.find(is_enough).unwrap_or(old_tokens);
    // FAULT hooks are told the size that the strategy was told: `old_tokens, told_tokens` -> `told_tokens, old_tokens`
    //     (overflow::every_strategy_can_be_forced_to_compact)
    match compact(env, ledger, old_tokens, told_tokens).await {
        Err(LoopError::Context(error)) => {
            // Outside of any span, because span exporters also export the log records inside a span, and the error may
            // quote messages.
            tracing::warn!(parent: None, %error, "the context window is exceeded, and compacting failed");
            // FAULT a strategy that cannot make room ends the run: `Ok(None)` -> `Err(LoopError::Context(error))`
            Ok(None)
        }
        compacted => compacted,
    }
}

/// Runs the strategy on a copy of the history, and replaces the history if the copy is shorter. Returns `None` if the
/// copy is not shorter. An error or a dropped run leaves the history unchanged.
///
/// `told_tokens` is the size in tokens that the strategy receives. `old_tokens` is the size that hooks and the result
/// report.
async fn compact(
    env: &Env<'_>,
    ledger: &mut Ledger,
    old_tokens: usize,
    told_tokens: usize,
) -> Result<Option<Sizes>, LoopError> {
    let strategy = env.parts.strategy;
    let turn = env.turn(ledger);
    let mut scopes = turn.open(OperationKind::Compaction { old_tokens });
    let request = env.request(ledger.messages());
    let mut usage = TokenUsage::default();
    let work = async {
        let compacted = strategy.compact_request_dyn(request, told_tokens).await;
        let used = compacted.as_ref().map_or_else(ContextError::usage, |(_, used)| Some(used));
        usage = used.cloned().unwrap_or_default();
        Ok(compacted?.0)
    };
    let compacted = scopes.run(or_cancelled(env.token, work)).await;
    let charged = charge(env, request, &mut usage);
    env.ctx.usage.add(&usage);
    // FAULT the usage of a compaction is not added: without the line
    ledger.counters().1.add_usage(&usage);
    let checked = compacted.and_then(|messages| {
        charged?;
        Ok(ledger.checked(messages)?)
    });
    let messages = checked.inspect_err(|error| {
        std::mem::take(&mut scopes).end(Outcome::Error(error));
    })?;
    let old_estimate = match strategy.counts_tokens_dyn() {
        true => strategy.estimate_request_dyn(env.request(ledger.messages())),
        false => old_tokens,
    };
    let new_estimate = strategy.estimate_request_dyn(env.request(&messages));
    // FAULT a compacted history is said to be longer: `new_estimate, old_estimate` -> `old_estimate, new_estimate`
    let new_tokens = in_proportion(old_tokens, new_estimate, old_estimate);
    scopes.end(Outcome::Compacted { new_tokens });
    // Estimates may be coarse, so fewer messages with the same estimate are progress too.
    let is_shorter = messages.len() < ledger.messages().len();
    // FAULT a compaction that changes nothing is progress: `is_shorter` -> `true`
    // FAULT a compaction that grows is progress: `new_estimate < old_estimate` -> `new_estimate != old_estimate`
    let progress = new_estimate < old_estimate || (new_estimate == old_estimate && is_shorter);
    if !progress {
        return Ok(None);
    }
    let request = env.request(&messages);
    let is_enough = !strategy.should_compact_request_dyn(request, new_tokens);
    let frame = env.counted_frame();
    let size = KnownSize { tokens: new_tokens, messages: messages.len(), frame };
    // FAULT a hook that ends the run at a compaction undoes it: after the next
    ledger.compacted(messages, size, is_enough);
    turn.dispatch(HookEvent::ContextCompaction { old_tokens, new_tokens }).await?;
    Ok(Some((old_tokens, new_tokens)))
}

/// Returns `true` if a model call with one token fits into the budget, and its price is known. Otherwise a strategy must
/// not call its model. If the call does not fit, the next call of the run ends the run with the error of the budget.
fn fits_budget(env: &Env<'_>, request: RequestRef<'_>) -> bool {
    let budget = env.run.budget.as_ref();
    let (info, model) = env.priced_model(request);
    // FAULT an exhausted budget does not stop a compaction: the line -> `true`
    //     (money::exhausted_budget_does_not_compact)
    budget.is_none_or(|budget| budget.reserve_call(info.name, model, 1, 1).is_ok())
}

/// Counts the usage of a compaction in the budget, and adds its cost to the usage. The strategy does not report its
/// model, so the price is that of the run's model.
fn charge(
    env: &Env<'_>,
    request: RequestRef<'_>,
    usage: &mut TokenUsage,
) -> Result<(), UnknownPrice> {
    let Some(budget) = env.run.budget.as_ref().filter(|_| *usage != TokenUsage::default()) else {
        return Ok(());
    };
    let (info, model) = env.priced_model(request);
    let (cost, known) = budget.charge_call(info.name, model, usage);
    // FAULT the cost of a compaction is not in the usage of the run: without the line (cost::compaction_counts)
    usage.cost = cost.or(usage.cost);
    known
}

/// Returns `tokens * new / old`, which scales a size in tokens by two estimates. Returns `new` if `old` is 0.
fn in_proportion(tokens: usize, new: usize, old: usize) -> usize {
    match old {
        0 => new,
        old => (tokens as f64 * (new as f64 / old as f64)).round() as usize,
    }
}

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
    let tokens = env.tokens_of(env.request(ledger.messages()), ledger.size());
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
