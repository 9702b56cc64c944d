//! Reserving, settling and releasing in budgets that several agents share.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{Agent, Budget, Conversation, LoopError, OnLimit, Reservation};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    HookAction, HookError, HookEvent, ObservabilityHook, ProviderError, TokenUsage, ToolContext,
    ToolError, ToolOutput, UsageLimits,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::*;
use crate::waiting::*;

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

fn limits() -> UsageLimits {
    UsageLimits::default()
}

fn context(budget: &Budget) -> ToolContext {
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(budget.clone());
    ctx
}

/// Returns a budget's used tokens, used requests, used tool calls and reserved tokens, in this order.
fn state(budget: &Budget) -> (usize, usize, usize, usize) {
    let tokens = budget.usage().total_tokens();
    (tokens, budget.requests(), budget.tool_calls(), budget.reserved_tokens())
}

#[test]
fn reservation_is_settled_released_or_returned_on_drop() {
    let budget = Budget::new(limits().with_request_limit(9));
    budget.reserve(100, 10).unwrap().settle(&usage(70, 7));
    assert_eq!(state(&budget), (77, 1, 0, 0));
    drop(budget.reserve(100, 10).unwrap());
    assert_eq!(state(&budget), (77, 1, 0, 0), "nothing was asked");
    let held = budget.reserve(100, 10).unwrap();
    assert_eq!(state(&budget), (77, 1, 0, 110));
    held.release();
    assert_eq!(state(&budget), (77, 1, 0, 0));
    let mut refused = budget.reserve(100, 10).unwrap();
    refused.start();
    refused.release();
    assert_eq!(state(&budget), (77, 2, 0, 0), "the request was made");
    let mut lost = budget.reserve(100, 10).unwrap();
    lost.start();
    drop(lost);
    assert_eq!(state(&budget), (187, 3, 0, 0), "nobody knows what it took");
    budget.charge(&usage(1, 2));
    assert_eq!(state(&budget), (190, 3, 0, 0));
    assert_eq!(budget.usage(), usage(171, 19));
}

#[test]
fn every_limit_rejects_excess_and_allows_the_rest() {
    for (limits, text) in [
        (limits().with_request_limit(1), "request limit exceeded: 2 > 1"),
        (limits().with_input_tokens_limit(150), "input token limit exceeded: 200 > 150"),
        (limits().with_output_tokens_limit(15), "output token limit exceeded: 20 > 15"),
        (limits().with_total_tokens_limit(219), "total token limit exceeded: 220 > 219"),
    ] {
        let budget = Budget::new(limits.clone());
        assert_eq!(budget.limits(), limits);
        let _held = budget.reserve(100, 10).unwrap();
        let refused = budget.clone().reserve(100, 10).unwrap_err();
        assert_eq!(refused.to_string(), format!("usage limit exceeded: budget: {text}"));
        assert_eq!(budget.reserved_tokens(), 110, "nothing of it was reserved");
    }
    let budget = Budget::new(limits().with_total_tokens_limit(220).with_request_limit(2));
    let _both = (budget.reserve(100, 10).unwrap(), budget.reserve(100, 10).unwrap());
    let saturated = Budget::new(limits().with_total_tokens_limit(usize::MAX - 1));
    saturated.charge(&usage(usize::MAX, usize::MAX));
    saturated.charge(&usage(usize::MAX, usize::MAX));
    assert!(saturated.reserve(usize::MAX, 1).is_err());
}

#[test]
fn part_charges_the_whole_and_a_rejection_charges_neither() {
    let whole = Budget::new(limits().with_total_tokens_limit(300));
    let part = whole.part(limits().with_request_limit(2));
    part.reserve(100, 0).unwrap().settle(&usage(100, 0));
    assert_eq!((state(&part), state(&whole)), ((100, 1, 0, 0), (100, 1, 0, 0)));
    whole.reserve(150, 0).unwrap().settle(&usage(150, 0));
    assert_eq!((state(&part), state(&whole)), ((100, 1, 0, 0), (250, 2, 0, 0)));
    // First the whole rejects and the part is not charged. Then the part rejects and the whole is not charged.
    assert!(part.reserve(100, 0).unwrap_err().to_string().contains("total token"));
    assert_eq!((state(&part), state(&whole)), ((100, 1, 0, 0), (250, 2, 0, 0)));
    part.reserve(1, 0).unwrap().settle(&usage(1, 0));
    assert!(part.reserve(1, 0).unwrap_err().to_string().contains("request"));
    assert_eq!((state(&part), state(&whole)), ((101, 2, 0, 0), (251, 3, 0, 0)));
}

/// An operation on a budget.
#[derive(Debug, Clone)]
enum Deed {
    /// Reserves tokens from the inner one of two nested budgets if `part` is `true`, otherwise from the outer budget.
    Reserve {
        part: bool,
        input: usize,
        output: usize,
    },
    /// Ends the open reservation that `which` selects. `starts` is `true` if the reserved model call was made.
    End {
        which: usize,
        starts: bool,
        how: End,
    },
    Charge(usize),
}

#[derive(Debug, Clone)]
enum End {
    /// Settles with this many input and output tokens more or fewer than estimated.
    Settle(isize, isize),
    Release,
    Drop,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let end = prop_oneof![
        (-60_isize..60, -60_isize..60).prop_map(|(input, output)| End::Settle(input, output)),
        Just(End::Release),
        Just(End::Drop),
    ];
    let deed = prop_oneof![
        4 => (any::<bool>(), 0_usize..200, 0_usize..50)
            .prop_map(|(part, input, output)| Deed::Reserve { part, input, output }),
        4 => (0_usize..8, any::<bool>(), end)
            .prop_map(|(which, starts, how)| Deed::End { which, starts, how }),
        1 => (0_usize..20).prop_map(Deed::Charge),
    ];
    prop::collection::vec(deed, 0..60)
}

proptest! {
    /// The used tokens equal the spent tokens, and exceed the limit at most by the sum of the estimation errors.
    #[test]
    fn used_tokens_match_spending_within_estimation_errors(
        deeds in deeds(),
        limit in 0_usize..1_500,
        requests in 0_usize..20,
    ) {
        let whole =
            Budget::new(limits().with_total_tokens_limit(limit).with_request_limit(requests));
        let part = whole.part(limits().with_input_tokens_limit(limit / 2));
        let mut open: Vec<(Reservation, usize, usize)> = Vec::new();
        // The expected used tokens, and the tokens by which they may exceed the limit.
        let (mut spent, mut made, mut excess) = (0_usize, 0_usize, 0_usize);
        for deed in deeds {
            let before = (state(&whole), state(&part));
            match deed {
                Deed::Reserve { part: of_part, input, output } => {
                    let reserved: usize = open.iter().map(|(_, input, output)| input + output).sum();
                    match if of_part { &part } else { &whole }.reserve(input, output) {
                        Ok(reservation) => {
                            prop_assert!(spent + reserved + input + output <= limit);
                            prop_assert!(made + open.len() < requests);
                            open.push((reservation, input, output));
                        }
                        Err(error) => {
                            prop_assert!(matches!(error, LoopError::UsageLimitExceeded(_)));
                            prop_assert_eq!((state(&whole), state(&part)), before);
                        }
                    }
                }
                Deed::End { which, starts, how } if !open.is_empty() => {
                    let (mut reservation, input, output) = open.swap_remove(which % open.len());
                    if starts {
                        reservation.start();
                    }
                    match how {
                        End::Settle(more_input, more_output) => {
                            let used = usage(
                                input.saturating_add_signed(more_input),
                                output.saturating_add_signed(more_output),
                            );
                            reservation.settle(&used);
                            spent += used.total_tokens();
                            made += 1;
                            excess += used.total_tokens().saturating_sub(input + output);
                        }
                        End::Release => {
                            reservation.release();
                            made += usize::from(starts);
                        }
                        End::Drop => {
                            drop(reservation);
                            made += usize::from(starts);
                            spent += if starts { input + output } else { 0 };
                        }
                    }
                }
                Deed::End { .. } => {}
                Deed::Charge(tokens) => {
                    part.charge(&usage(tokens, 0));
                    spent += tokens;
                    excess += tokens;
                }
            }
            let reserved: usize = open.iter().map(|(_, input, output)| input + output).sum();
            prop_assert_eq!(state(&whole), (spent, made, 0, reserved));
            prop_assert!(spent + reserved <= limit + excess);
            prop_assert!(made + open.len() <= requests);
        }
        open.clear();
        prop_assert_eq!((whole.reserved_tokens(), part.reserved_tokens()), (0, 0));
    }

    /// Sequential calls exceed the limit at most by the error of one estimate.
    #[test]
    fn sequential_calls_exceed_the_limit_by_one_estimation_error(
        calls in prop::collection::vec((0_usize..200, -100_isize..100), 0..40),
        limit in 0_usize..2_000,
    ) {
        let budget = Budget::new(limits().with_total_tokens_limit(limit));
        let mut worst = 0;
        for (estimate, error) in calls {
            let Ok(reservation) = budget.reserve(estimate, 0) else { continue };
            let used = estimate.saturating_add_signed(error);
            reservation.settle(&usage(used, 0));
            worst = worst.max(used.saturating_sub(estimate));
            prop_assert!(budget.usage().total_tokens() <= limit + worst);
        }
    }
}

#[test]
fn concurrent_threads_never_exceed_the_limit() {
    let budget = Budget::new(limits().with_total_tokens_limit(1_000).with_request_limit(95));
    let granted: usize = std::thread::scope(|scope| {
        let take = || {
            let calls = (0..100).filter(|_| match budget.reserve(9, 1) {
                Ok(reservation) => {
                    std::thread::yield_now();
                    reservation.settle(&usage(9, 1));
                    true
                }
                Err(_) => false,
            });
            calls.count()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((granted, state(&budget)), (95, (950, 95, 0, 0)));
}

#[tokio::test]
async fn concurrent_agents_share_requests_tool_calls_and_tokens() {
    for (limits, most) in [
        (limits().with_request_limit(30), 30),
        (limits().with_tool_calls_limit(12), usize::MAX),
        (limits().with_total_tokens_limit(9_000), usize::MAX),
    ] {
        for way in WAYS {
            let budget = Budget::new(limits.clone());
            let agents = (0..40).map(|_| {
                let budget = budget.clone();
                async move {
                    let act = || calls([json!({"delay": 10}), json!({})]).usage(usage(90, 10));
                    let last = Reply::text("done").usage(usage(90, 10));
                    let replies =
                        [act(), act(), last].map(|reply| reply.delay(Duration::from_millis(5)));
                    let setup = setup(replies);
                    let mut agent = setup.builder.budget(budget).max_tokens(100).build();
                    let ended = run(way, &mut agent, &ToolContext::default()).await;
                    check_valid(agent.messages());
                    (setup.provider.calls(), setup.log.count("start"), agent.usage().clone(), ended)
                }
            });
            tokio::time::pause();
            let all = futures_util::future::join_all(agents).await;
            tokio::time::resume();
            let made: usize = all.iter().map(|(calls, ..)| calls).sum();
            let started: usize = all.iter().map(|(_, started, ..)| started).sum();
            let tokens: usize = all.iter().map(|(.., usage, _)| usage.total_tokens()).sum();
            assert_eq!(state(&budget), (tokens, made, started, 0), "nothing is lost");
            assert!(made <= most && all.iter().any(|(.., ended)| ended.is_err()));
            if let Some(limit) = limits.tool_calls_limit {
                assert_eq!(started, limit);
            }
            if let Some(limit) = limits.request_limit {
                assert_eq!(made, limit);
            }
            if let Some(limit) = limits.total_tokens_limit {
                assert!(tokens <= limit && tokens > limit / 2, "{tokens}");
            }
            for error in all.into_iter().filter_map(|(.., ended)| ended.err()) {
                assert!(error.starts_with("usage limit exceeded: budget: "), "{error}");
            }
        }
    }
}

/// Returns a registry whose tools, when called, run an agent with the model `inner`. The agent gets the context of the
/// tool call, and the budget `own` if set.
fn delegating(inner: ScriptedProvider, own: Option<Budget>) -> ToolRegistry {
    let mut tools = registry(&Log::default());
    tools.add_middleware(tool_middleware_fn(move |_, ctx, _| {
        let mut builder = Chat::builder(inner.clone(), window()).tools(registry(&Log::default()));
        if let Some(own) = &own {
            builder = builder.budget(own.clone());
        }
        let mut agent = builder.build();
        Box::pin(async move {
            match agent.run_text("go", ctx).await {
                Ok(result) => Ok(ToolOutput::text(result.response)),
                Err(error) => Err(ToolError::ModelRetry(error.to_string())),
            }
        })
    }));
    tools
}

#[tokio::test]
async fn nested_agent_uses_the_parent_budget() {
    for way in WAYS {
        for on_builder in [true, false] {
            let budget = Budget::new(limits().with_request_limit(4));
            let inner = ScriptedProvider::new([
                calls([json!({})]).usage(usage(10, 1)),
                Reply::text("inner").usage(usage(10, 1)),
                Reply::text("never").usage(usage(10, 1)),
            ]);
            let setup = setup([
                calls([json!({})]).usage(usage(10, 1)),
                calls([json!({})]).usage(usage(10, 1)),
                Reply::text("done").usage(usage(10, 1)),
            ]);
            let mut builder = setup.builder.tools(delegating(inner.clone(), None));
            let mut ctx = ToolContext::default();
            match on_builder {
                true => builder = builder.budget(budget.clone()),
                false => ctx = context(&budget),
            }
            let mut agent = builder.build();
            let error = run(way, &mut agent, &ctx).await.unwrap_err();
            let refused = "usage limit exceeded: budget: request limit exceeded: 5 > 4";
            assert_eq!(error, refused);
            assert_eq!((inner.calls(), setup.provider.calls()), (2, 2));
            // One tool call per response of the outer agent, and one of the inner agent.
            assert_eq!(state(&budget), (44, 4, 3, 0));
            assert_eq!(last_results(agent.messages()), [format!("c0: !{refused}")]);
        }
    }
}

#[tokio::test]
async fn nested_run_with_own_budget_respects_both_and_counts_once() {
    for is_part in [true, false] {
        let outer = Budget::new(limits().with_request_limit(100));
        let limit = limits().with_request_limit(1);
        let own = if is_part { outer.part(limit) } else { Budget::new(limit) };
        let inner = ScriptedProvider::new([calls([json!({})]), Reply::text("never")]);
        let setup = setup([calls([json!({})]), Reply::text("done")]);
        let tools = delegating(inner.clone(), Some(own.clone()));
        let mut agent = setup.builder.tools(tools).budget(outer.clone()).build();
        agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!((own.requests(), outer.requests()), (1, 3), "part: {is_part}");
        assert!(
            last_results(agent.messages())[0].contains("budget: request limit exceeded: 2 > 1")
        );
    }
    // The run's own budget and the budget in the context are the same one.
    let budget = Budget::new(limits());
    let setup = setup([Reply::text("hi").usage(usage(10, 1))]);
    let mut agent = setup.builder.budget(budget.clone()).build();
    agent.run_text("go", &context(&budget)).await.unwrap();
    assert_eq!(state(&budget), (11, 1, 0, 0));
}

#[tokio::test]
async fn budget_of_a_run_replaces_the_budget_of_its_agent() {
    let [of_agent, of_run] = [(); 2].map(|()| Budget::new(limits()));
    let agent = Agent::builder(ScriptedProvider::new(["done"])).budget(of_agent.clone()).build();
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").budget(of_run.clone()).await.unwrap();
    assert_eq!((of_agent.requests(), of_run.requests()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn failed_call_returns_tokens_that_were_not_spent() {
    let provider = |error: ProviderError| Reply::error(error);
    for (reply, requests, is_spent) in [
        (provider(ProviderError::RateLimit { retry_after: None }), 1, false),
        (provider(ProviderError::InvalidRequest("no".into())), 1, false),
        (provider(ProviderError::Timeout(Duration::from_secs(1))), 1, true),
        (provider(ProviderError::Network("reset".into())), 1, true),
        (provider(ProviderError::StreamError("cut".into())), 1, true),
        (Reply::hang(), 1, true),
        (Reply::text("half").hang_after(1), 1, true),
    ] {
        for way in WAYS {
            for cancels in [false, true] {
                let budget = Budget::new(limits().with_total_tokens_limit(5_000));
                let setup = setup([reply.clone()]);
                let mut agent = setup.builder.budget(budget.clone()).max_tokens(500).build();
                let ctx = ToolContext::default();
                let second = Duration::from_secs(1);
                let token = ctx.cancellation_token.clone();
                let whole = tokio::time::timeout(second * 2, run(way, &mut agent, &ctx));
                let (ended, ()) = tokio::join!(whole, async {
                    tokio::time::sleep(second).await;
                    if cancels {
                        token.cancel();
                    }
                });
                assert!(!matches!(ended, Ok(Ok(_))));
                let (tokens, made, _, reserved) = state(&budget);
                assert_eq!((made, reserved), (requests, 0), "{reply:?}");
                // The estimate is 500 tokens for the response, and some for the prompt.
                assert_eq!(tokens > 500, is_spent, "{reply:?} {way:?}: {tokens}");
            }
        }
    }
}

#[tokio::test]
async fn unsent_call_is_free_and_rejected_response_is_charged() {
    for (event, made, tokens) in [("PreLlm", 0, 0), ("PostLlm", 1, 110)] {
        for way in WAYS {
            let budget = Budget::new(limits());
            let setup = setup([Reply::text("hi").usage(usage(100, 10))]);
            let terminate = HookAction::Terminate { reason: "no".into() };
            let mut agent = setup
                .builder
                .budget(budget.clone())
                .hook(Recorder::answering(event, terminate))
                .build();
            run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
            assert_eq!(state(&budget), (tokens, made, 0, 0));
        }
    }
}

#[tokio::test]
async fn response_rejected_at_first_chunk_is_charged() {
    for way in [Way::Run, Way::Step] {
        let budget = Budget::new(limits());
        let setup = setup([Reply::text("hi").usage(usage(100_000, 50))]);
        let terminate = HookAction::Terminate { reason: "no".into() };
        let hook = Recorder::answering("FirstChunk", terminate);
        let mut agent = setup.builder.budget(budget.clone()).hook(hook).max_tokens(500).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(agent.usage().input_tokens, 100_000);
        let used = budget.usage();
        assert_eq!((used.input_tokens, used.output_tokens), (100_000, 500), "{way:?}");
        assert_eq!(budget.reserved_tokens(), 0);
    }
}

/// Regression test. Before the fix, the call counted without tokens, because the same error before the first delta means
/// that the provider refused the request.
#[tokio::test]
async fn error_inside_a_stream_is_charged() {
    let busy = || ProviderError::ServiceUnavailable("overloaded".into());
    for (way, reply, is_charged) in [
        (Way::Stream, Reply::text("half").fail_after(1, busy()), true),
        (Way::Stream, Reply::text("half").fail_after(0, busy()), false),
        (Way::Run, Reply::text("half").fail_after(1, busy()), false),
    ] {
        let budget = Budget::new(limits());
        let mut agent = setup([reply]).builder.budget(budget.clone()).max_tokens(500).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        let (tokens, requests, _, reserved) = state(&budget);
        assert_eq!((tokens > 500, requests, reserved), (is_charged, 1, 0), "{way:?}");
    }
}

/// Regression test. Before the fix, the budget counted only the estimate, and the run counted nothing.
#[tokio::test(start_paused = true)]
async fn run_dropped_at_first_chunk_counts_the_reported_usage() {
    /// A hook that does not return from the first chunk.
    struct Waits;

    impl ObservabilityHook for Waits {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            match event {
                HookEvent::FirstChunk => std::future::pending().await,
                _ => Ok(HookAction::Continue),
            }
        }
    }

    for way in [Way::Run, Way::Step] {
        let budget = Budget::new(limits());
        let setup = setup([Reply::text("hi").usage(usage(100_000, 50))]);
        let mut agent = setup.builder.budget(budget.clone()).hook(Waits).max_tokens(500).build();
        let ctx = ToolContext::default();
        let run = run(way, &mut agent, &ctx);
        tokio::time::timeout(Duration::from_secs(1), run).await.unwrap_err();
        assert_eq!(budget.usage(), usage(100_000, 500), "{way:?}");
        assert_eq!((agent.usage(), budget.reserved_tokens()), (&usage(100_000, 50), 0));
        assert_eq!(ctx.usage.total(), usage(100_000, 50));
    }
}

#[tokio::test]
async fn batch_beyond_the_budget_runs_no_tool() {
    for way in WAYS {
        let budget = Budget::new(limits().with_tool_calls_limit(3));
        let two = || calls([json!({}), json!({})]);
        let setup = setup([two(), two(), Reply::text("landed")]);
        let mut agent = setup.builder.budget(budget.clone()).on_limit(OnLimit::Finalize).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), setup.log.count("start")), ("landed", 2));
        let limit = "usage limit exceeded: budget: tool call limit exceeded: 4 > 3";
        assert_eq!(result.limit_reached.as_deref(), Some(limit));
        assert_eq!((budget.tool_calls(), budget.reserved_tokens()), (2, 0));
    }
}

#[tokio::test]
async fn finalize_makes_no_last_call_beyond_the_budget() {
    for way in WAYS {
        let budget = Budget::new(limits().with_request_limit(1));
        let setup = setup([calls([json!({})]), Reply::text("never")]);
        let hook = Recorder::default();
        let mut agent = setup
            .builder
            .budget(budget.clone())
            .on_limit(OnLimit::Finalize)
            .hook(hook.clone())
            .build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(error, "usage limit exceeded: budget: request limit exceeded: 2 > 1");
        assert_eq!((setup.provider.calls(), agent.messages().len()), (1, 3));
        assert_eq!(hook.log.count("Turn 1"), 1);
        check_valid(agent.messages());
    }
}

/// Interrupts a run at every point where it waits. Afterwards no budget is reserved, and all started tools are counted.
/// Each part of the agent returns `Poll::Pending` first, so that the run waits there.
#[test]
fn interrupted_run_reserves_nothing_and_counts_started_tools() {
    for way in WAYS {
        for parallel in [false, true] {
            for cancels in [false, true] {
                for polls in 0.. {
                    let budget = Budget::new(limits());
                    let tool = Waiting::default();
                    let mut tools = ToolRegistry::new();
                    tools.register_dyn(Arc::new(tool.clone()));
                    let mut agent = Chat::builder(Strict::new(replies(false)), SlowWindow::new())
                        .tools(tools)
                        .parallel_tool_execution(parallel)
                        .budget(budget.clone())
                        .hook(SlowRecorder(Recorder::default()))
                        .build();
                    let ctx = ToolContext::default();
                    let ended = {
                        let mut run = pin!(run(way, &mut agent, &ctx));
                        let ended = poll_times(run.as_mut(), polls).is_some();
                        if !ended && cancels {
                            ctx.cancellation_token.cancel();
                            assert!(poll_times(run, 500).is_some(), "it ends soon");
                        }
                        ended
                    };
                    let (tokens, _, started, reserved) = state(&budget);
                    let at = format!("{way:?}, parallel: {parallel}, left after {polls} polls");
                    assert_eq!(reserved, 0, "{at}");
                    // A call may have been started without being polled yet.
                    assert!(started >= tool.keys.lines().len(), "{at}");
                    assert!(tokens >= agent.usage().total_tokens(), "{at}");
                    if ended {
                        assert_eq!(tokens, agent.usage().total_tokens());
                        assert_eq!(started, tool.keys.lines().len());
                        assert!(polls > 20, "there was something to leave");
                        break;
                    }
                }
            }
        }
    }
}
