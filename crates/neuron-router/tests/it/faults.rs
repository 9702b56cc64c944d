//! Runs of an agent over four servers that fail, break streams and hang at random.
//!
//! `ROUTER_RUNS` sets the number of runs (default 1,000), and `ROUTER_SEED` the seed of the faults.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuron_conformance::random::Random;
use neuron_loop::{Agent, Conversation};
use neuron_model::{ProviderError, Role, TokenUsage, transcript};
use neuron_router::{Order, Router};
use neuron_testing::Reply;
use neuron_types::{Budget, HookAction, HookError, HookEvent, ObservabilityHook, UsageLimits};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::streamed;
use crate::vendors::{LAST, NAMES, Servers, Step, TOOL_CALLS, usage};

/// Returns a random reply. About half of the replies fail.
fn reply(random: &mut Random) -> Reply {
    let answer = || Reply::text("x");
    let busy = || ProviderError::ServiceUnavailable("overloaded".into());
    let events = random.below(12) as usize;
    match random.below(100) {
        0..55 => answer(),
        55..65 => Reply::error(busy()),
        65..72 => Reply::error(ProviderError::RateLimit { retry_after: None }),
        72..77 => Reply::error(ProviderError::Network("reset".into())),
        77..81 => Reply::error(ProviderError::InsufficientResources("quota".into())),
        81..87 => answer().fail_after(events, busy()),
        87..93 => answer().fail_after(events, ProviderError::Network("reset".into())),
        93..96 => answer().hang_after(events),
        96..98 => answer().delay(Duration::from_millis(20)),
        _ => Reply::hang(),
    }
}

/// A hook that counts the model calls that failed for the agent.
#[derive(Clone, Default)]
struct Failures(Arc<AtomicUsize>);

impl ObservabilityHook for Failures {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if let HookEvent::LlmError { .. } = event {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(HookAction::Continue)
    }
}

/// Runs an agent to its end. Returns the number of model calls that failed for the agent.
async fn run(router: Router, number: u64) -> usize {
    let (step, budget, failures) =
        (Step::default(), Budget::new(UsageLimits::default()), Failures::default());
    let agent = Agent::builder(router)
        .tools(step.registry())
        .hook(failures.clone())
        .config(|config| config.retries = 100)
        .build();
    let mut conversation = Conversation::new();
    // The router recognises each conversation by its first message.
    let message = format!("Make the steps of run {number}.");
    let run = agent.run(&mut conversation, message).budget(budget.clone());
    let result = match number % 2 {
        0 => run.await.unwrap(),
        _ => streamed(run).await,
    };
    assert!(result.response.ends_with(LAST), "run {number}: {}", result.response);
    assert_eq!(step.take(), (0..TOOL_CALLS as u64).collect::<Vec<_>>(), "run {number}");
    transcript::validate(conversation.messages()).unwrap();
    let answers: Vec<_> =
        conversation.messages().iter().filter(|message| message.role == Role::Assistant).collect();
    assert_eq!((answers.len(), result.turns), (TOOL_CALLS + 1, TOOL_CALLS + 1));
    for answer in answers {
        let route = answer.metadata().and_then(|metadata| metadata.route).expect("no route");
        assert!(NAMES.contains(&&*route.name));
    }
    let expected = (0..=TOOL_CALLS).map(usage).fold(TokenUsage::default(), |mut sum, usage| {
        sum += &usage;
        sum
    });
    let tokens = |usage: &TokenUsage| (usage.input_tokens, usage.output_tokens);
    assert_eq!(tokens(&result.usage), tokens(&expected), "run {number}");
    assert_eq!((budget.reserved_tokens(), budget.tool_calls()), (0, TOOL_CALLS));
    assert_eq!(result.estimated_usage, TokenUsage::default());
    let failures = failures.0.load(Ordering::Relaxed);
    assert_eq!(budget.requests(), TOOL_CALLS + 1 + failures, "run {number}");
    match failures {
        0 => assert_eq!(tokens(&budget.usage()), tokens(&expected), "run {number}"),
        // A call that may have used tokens counts with its estimate.
        _ => assert!(budget.usage().total_tokens() >= expected.total_tokens()),
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_under_faults_ends_with_one_answer() {
    let from_env = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let runs: u64 = from_env("ROUTER_RUNS").unwrap_or(1_000);
    let seed: u64 = from_env("ROUTER_SEED").unwrap_or(1);
    println!("ROUTER_RUNS={runs} ROUTER_SEED={seed}");
    let replies = |server: usize| {
        let mut random = Random::new(seed.wrapping_mul(4).wrapping_add(server as u64));
        // A run makes about eight calls, and any server may get them all for a while.
        (0..runs * 8 + 200).map(|_| reply(&mut random)).collect()
    };
    let servers = Servers::start(replies).await.unwrap();
    let router = |order, hedge: bool| {
        let builder = servers.router(Duration::from_millis(300)).order(order).seed(seed);
        let builder = builder.cooling_off(Duration::from_millis(5)).sticky(1_000);
        match hedge {
            true => builder.hedge_after(Duration::from_millis(50)).build().unwrap(),
            false => builder.build().unwrap(),
        }
    };
    let routers = [router(Order::Weighted, false), router(Order::Latency, true)];
    let routers = &routers;
    let runs = stream::iter(0..runs).map(|number| {
        let router = routers[(number / 2 % 2) as usize].clone();
        tokio::spawn(run(router, number))
    });
    let failures: Vec<usize> = runs.buffer_unordered(64).map(|run| run.unwrap()).collect().await;
    // The faults reach the agent too, because a stream that broke within its content is the agent's to repeat.
    assert!(failures.iter().any(|failures| *failures > 0));
    let requests = servers.requests();
    println!(
        "requests of {NAMES:?}: {requests:?}; failed calls: {}",
        failures.iter().sum::<usize>()
    );
    assert!(requests.iter().all(|requests| *requests > 0), "{requests:?}");
}
