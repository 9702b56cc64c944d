//! A test of the cost of a run that is interrupted and resumed.

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, Budget};
use neuron_types::{AgentResult, Cost, Money, PriceList, TokenUsage, UnknownPrice};

use crate::support::{Work, place};

/// A call costs a dollar for each token.
struct Dollars;

impl PriceList for Dollars {
    fn cost(&self, _: &str, _: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        Ok(Money::from_dollars(usage.total_tokens() as u64))
    }

    fn reserve(
        &self,
        _: &str,
        _: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        Ok(Money::from_dollars((input_tokens + output_tokens) as u64))
    }
}

/// Drives the run to its end, with an own budget for each attempt.
async fn drive(work: &Work, runs: &SqliteRuns) -> AgentResult {
    let agent = Agent::builder(work.clone()).tools(work.tools());
    let agent = agent.budget(Budget::priced(Dollars)).build();
    let context = work.open(runs, "r").await.unwrap();
    context.drive("go", &agent).await.unwrap()
}

#[tokio::test]
async fn resumed_run_costs_the_same_as_a_run_without_a_crash() {
    let work = Work::new(3, 10);
    let undisturbed = {
        let (_folder, path) = place();
        drive(&work, &SqliteRuns::open(&path).await.unwrap()).await
    };
    // Four calls of eleven tokens.
    assert_eq!(undisturbed.usage.cost, Some(Cost::from(Money::from_dollars(44))));
    for hangs_at in 0..4 {
        let (_folder, path) = place();
        let interrupted = work.hanging_at(hangs_at);
        let runs = SqliteRuns::open(&path).await.unwrap();
        tokio::select! {
            ended = drive(&interrupted, &runs) => panic!("it ended: {ended:?}"),
            () = interrupted.counts.hangs.notified() => {}
        }
        drop(runs);
        let again = work.again();
        let resumed = drive(&again, &SqliteRuns::open(&path).await.unwrap()).await;
        assert_eq!(resumed.usage, undisturbed.usage, "interrupted at call {hangs_at}");
        assert_eq!(again.done().0, 4 - hangs_at, "the other calls are replayed");
    }
}

#[tokio::test]
async fn finished_run_keeps_its_cost() {
    let (_folder, path) = place();
    let work = Work::new(1, 10);
    let first = drive(&work, &SqliteRuns::open(&path).await.unwrap()).await;
    let again = work.again();
    let replayed = drive(&again, &SqliteRuns::open(&path).await.unwrap()).await;
    assert_eq!((replayed.usage, again.done().0), (first.usage, 0));
}
