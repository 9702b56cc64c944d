//! Two agents share a budget, and run one after the other or concurrently. One of them is interrupted. Afterwards no
//! tokens are reserved, all used tokens are counted, and no limit on calls is exceeded. The runs have the cost that the
//! budget counted.

use std::collections::BTreeSet;

use neuron_loop::Budget;
use neuron_types::{Money, PriceList, TokenUsage, UnknownPrice};

use crate::model::case::*;
use crate::model::check::{Checked, context, no_faults, no_scope_is_open, same};
use crate::model::drive::{self, Ended, Stop};
use crate::model::parts::{self, Agent};
use crate::model::world::{Journal, World};

/// The limits of a budget that two agents share. With `at_once` set, the agents run concurrently.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) limits: neuron_types::UsageLimits,
    pub(crate) at_once: bool,
}

pub(crate) async fn check(case: &Case, shared: &Shared, seen: &mut BTreeSet<String>) -> Checked {
    let budget = Budget::priced(Dollars).part(shared.limits.clone());
    let stop = match case.interruption.how {
        How::Cancel | How::CancelWithin => Stop::Cancel(1 + case.interruption.nth % 20),
        How::Drop | How::Panic => Stop::Drop(1 + case.interruption.nth % 20),
        _ => Stop::Never,
    };
    let first = one(case, &budget, stop);
    let second = one(case, &budget, Stop::Never);
    let runs = match shared.at_once {
        true => tokio::join!(first, second),
        false => (first.await, second.await),
    };
    let runs = [runs.0?, runs.1?];
    same("the tokens that stay reserved", &budget.reserved_tokens(), &0)?;
    let how = if shared.at_once { "at once" } else { "one after the other" };
    seen.insert(format!("budget: {how}"));
    let mut usage = TokenUsage::default();
    let (mut requests, mut begun) = (0, 0);
    let (mut is_exact, mut is_whole) = (case.config.engine.is_none(), true);
    for Ran { journal, agent, ended } in &runs {
        usage += agent.total_usage();
        requests += journal.requests.len();
        begun += journal.begun.len();
        let is_known = |scope: &String| {
            let ends = [": failed", ": dropped"].iter().any(|end| scope.contains(end));
            !(scope.starts_with("model call") && ends)
        };
        is_whole &= journal.scopes.iter().all(is_known);
        match ended {
            Ended::With(outcome) => {
                let (_, refused) = outcome.split_once("budget: ").unwrap_or_default();
                if let Some((what, _)) = refused.split_once(" limit exceeded") {
                    seen.insert(format!("budget: no {what}"));
                }
                is_exact &= journal.when_cancelled.is_none();
            }
            Ended::Dropped | Ended::Panicked => is_exact = false,
        }
    }
    is_whole &= is_exact;
    if budget.requests() < requests || (is_exact && budget.requests() != requests) {
        return Err(format!("{requests} requests, but the budget says {}", budget.requests()));
    }
    if budget.tool_calls() < begun {
        return Err(format!("{begun} calls, but the budget says {}", budget.tool_calls()));
    }
    let used = budget.usage();
    // Tools settle their tokens themselves.
    let taken: usize = runs.iter().map(|ran| ran.agent.tool_usage().input_tokens).sum();
    usage.input_tokens -= taken;
    let tokens = |usage: &TokenUsage| (usage.input_tokens, usage.output_tokens);
    if is_whole {
        seen.insert("budget: all is known".into());
        same("the tokens", &tokens(&used), &tokens(&usage))?;
    } else if used.input_tokens < usage.input_tokens || used.output_tokens < usage.output_tokens {
        return Err(format!("{usage:?}, but the budget says {used:?}"));
    } else {
        seen.insert("budget: with an estimate".into());
    }
    // Tools have no prices.
    let (cost, spent) = (usage.cost.unwrap_or_default(), used.cost.unwrap_or_default());
    same("the cost", &cost.amount, &spent.amount)?;
    same("that the cost is complete", &cost.is_complete, &(taken == 0))?;
    same("that the budget knows all prices", &spent.is_complete, &true)?;
    same("the money that stays reserved", &budget.reserved_money(), &Money::ZERO)?;
    let limits = &shared.limits;
    for (what, count, limit) in [
        ("requests", budget.requests(), limits.request_limit),
        ("tool calls", budget.tool_calls(), limits.tool_calls_limit),
    ] {
        if limit.is_some_and(|limit| count > limit) {
            return Err(format!("{count} {what} are more than {limit:?}"));
        }
    }
    Ok(())
}

/// A price list in which a call costs a dollar, and a dollar more for each token.
struct Dollars;

impl PriceList for Dollars {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        self.reserve(vendor, model, usage.input_tokens, usage.output_tokens)
    }

    fn reserve(
        &self,
        _: &str,
        _: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        let tokens = input_tokens as u128 + output_tokens as u128;
        Ok(Money::from_picodollars((1 + tokens) * 1_000_000_000_000))
    }
}

/// An agent after its run, with the journal and the outcome of the run.
struct Ran {
    journal: Journal,
    agent: Agent,
    ended: Ended,
}

async fn one(case: &Case, budget: &Budget, stop: Stop) -> Checked<Ran> {
    let world = World::new(case.config.hooks.len());
    let mut agent = parts::agent(case, &world);
    let mut ctx = context();
    ctx.extensions.insert(budget.clone());
    world.begin(ctx.cancellation_token.clone(), None);
    let begin = Begin::Message(case.messages[0].clone());
    let way = case.interruption.way;
    let (ended, _) = drive::run(case, way, &mut agent, begin, &ctx, &world, stop).await;
    let journal = world.note(std::mem::take);
    no_faults(&journal)?;
    no_scope_is_open(&journal)?;
    Ok(Ran { journal, agent, ended })
}
