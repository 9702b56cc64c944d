//! A test of the cost of a run that is interrupted and resumed.

use std::sync::Arc;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, Budget, Conversation};
use neuron_tool::ToolRegistry;
use neuron_types::{AgentResult, Cost, Money, PriceList, TokenUsage, ToolOutput, UnknownPrice};

use crate::support::{Work, add_tool, place};

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
    drive_with(work, runs, work.tools(), &Budget::priced(Dollars)).await
}

async fn drive_with(
    work: &Work,
    runs: &SqliteRuns,
    tools: ToolRegistry,
    budget: &Budget,
) -> AgentResult {
    let agent = Agent::builder(work.clone()).tools(tools.clone()).budget(budget.clone()).build();
    let context = runs.run("r").open(Arc::new(work.clone()), Arc::new(tools)).await.unwrap();
    context.drive("go", &agent).await.unwrap()
}

/// Returns a tool whose calls run an agent, which makes a call of eleven tokens.
fn delegating() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    add_tool(&mut tools, "echo", |_, ctx| async move {
        let agent = Agent::builder(Work::new(0, 10)).build();
        agent.run(&mut Conversation::new(), "go").context(&ctx).await.unwrap();
        ToolOutput::text("done")
    });
    tools
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

/// Regression test. Before the fix, the budget of the second attempt did not contain what the agents inside the completed
/// calls had spent.
#[tokio::test]
async fn budget_of_a_resumed_run_contains_the_agents_inside_completed_calls() {
    let work = Work::new(3, 10);
    let undisturbed = Budget::priced(Dollars);
    let (_folder, path) = place();
    drive_with(&work, &SqliteRuns::open(&path).await.unwrap(), delegating(), &undisturbed).await;
    // Four calls of the agent, and three of the agents inside its tool calls.
    assert_eq!((undisturbed.requests(), undisturbed.tool_calls()), (7, 3));
    assert_eq!(undisturbed.spent(), Money::from_dollars(77));
    for hangs_at in 0..4 {
        let (_folder, path) = place();
        let interrupted = work.hanging_at(hangs_at);
        let runs = SqliteRuns::open(&path).await.unwrap();
        let first = Budget::priced(Dollars);
        tokio::select! {
            ended = drive_with(&interrupted, &runs, delegating(), &first) => panic!("it ended: {ended:?}"),
            () = interrupted.counts.hangs.notified() => {}
        }
        drop(runs);
        let second = Budget::priced(Dollars);
        let runs = SqliteRuns::open(&path).await.unwrap();
        drive_with(&work.again(), &runs, delegating(), &second).await;
        assert_eq!(second.spending(), undisturbed.spending(), "interrupted at call {hangs_at}");
    }
}
