//! Tests of the usage, limits and budgets that sub-agents share with the parent run.

use neuron_loop::{Budget, LoopError, OnLimit};
use neuron_testing::Reply;
use neuron_types::{
    Cost, Money, PriceList, ProviderError, TokenUsage, ToolContext, UnknownPrice, UsageLimits,
};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn agent_tokens_count_once_in_all_parent_runs() {
    for way in WAYS {
        for parallel in [false, true] {
            let scripts = Scripts::new([
                ("main", vec![asks(&["a", "b"]), text("done")]),
                // One agent calls another, and one agent fails after it has used tokens.
                ("a", vec![asks(&["c"]), text("a")]),
                (
                    "b",
                    vec![
                        calls([("x", "act", json!({}))]),
                        Reply::error(ProviderError::InvalidRequest("no".into())),
                    ],
                ),
                ("c", vec![text("c").usage(usage(1_000, 100))]),
            ]);
            let mut c = with_tools("c", &[]);
            c.max_depth = 2;
            let agents =
                [("a", with_tools("a", &["c"])), ("b", with_tools("b", &["act"])), ("c", c)];
            let builder = parent(&scripts, &Log::default(), agents);
            let mut agent =
                Chat::new(builder.config(|config| config.parallel_tool_execution = parallel));
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            // `main` and `a` answer twice, `b` and `c` once.
            assert_eq!(result.usage, usage(1_050, 105), "{way:?} {parallel}");
            assert_eq!(agent.conversation.tool_usage(), &usage(1_030, 103));
            assert_eq!(agent.conversation.total_usage(), &result.usage);
            assert_eq!(ctx.usage.total(), result.usage);
        }
    }
}

/// A call costs a dollar for each token. The model `b` has no price.
struct Dollars;

impl PriceList for Dollars {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        self.reserve(vendor, model, usage.input_tokens, usage.output_tokens)
    }

    fn reserve(&self, v: &str, m: &str, input: usize, out: usize) -> Result<Money, UnknownPrice> {
        match m {
            "b" => Err(UnknownPrice::new(v, m)),
            _ => Ok(Money::from_dollars((input + out) as u64)),
        }
    }
}

#[tokio::test]
async fn cost_of_a_run_includes_its_agents() {
    for way in WAYS {
        for (agents, is_complete) in [(&["a"][..], true), (&["a", "b"], false)] {
            let scripts = Scripts::new([
                ("main", vec![asks(agents), text("done")]),
                ("a", vec![text("a").usage(usage(1_000, 100))]),
                ("b", vec![text("b")]),
            ]);
            let all = [("a", with_tools("a", &[])), ("b", with_tools("b", &[]))];
            let budget = Budget::priced(Dollars);
            let builder = parent(&scripts, &Log::default(), all).budget(budget.clone());
            let mut agent = Chat::new(builder);
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            // `main` uses 22 tokens.
            let amount = Money::from_dollars(1_100 + 22);
            assert_eq!(result.usage.cost, Some(Cost { amount, is_complete }), "{way:?}");
            assert_eq!(budget.usage().cost, result.usage.cost);
            assert_eq!(ctx.usage.total(), result.usage);
            let amount = Money::from_dollars(1_100);
            assert_eq!(agent.conversation.tool_usage().cost, Some(Cost { amount, is_complete }));
        }
    }
}

#[tokio::test]
async fn token_limits_of_a_run_include_agent_tokens() {
    for way in WAYS {
        let scripts = Scripts::new([
            ("main", vec![asks(&["a"]), text("landed")]),
            ("a", vec![text("a").usage(usage(1_000, 0))]),
        ]);
        let limits = UsageLimits::default().with_input_tokens_limit(500);
        for on_limit in [OnLimit::Fail, OnLimit::Finalize] {
            let scripts = if on_limit == OnLimit::Fail {
                scripts.clone()
            } else {
                Scripts::new([
                    ("main", vec![asks(&["a"]), text("landed")]),
                    ("a", vec![text("a").usage(usage(1_000, 0))]),
                ])
            };
            let builder = parent(&scripts, &Log::default(), [("a", with_tools("a", &[]))]);
            let builder = builder.usage_limits(limits.clone());
            let mut agent = Chat::new(builder.config(|config| config.on_limit = on_limit));
            let ended = run(way, &mut agent, &ToolContext::default()).await;
            match on_limit {
                OnLimit::Finalize => assert_eq!(ended.unwrap().response, "landed"),
                _ => {
                    let text = ended.unwrap_err().to_string();
                    assert!(text.contains("input token limit exceeded: 1010 > 500"), "{text}");
                    assert_eq!(scripts.of("main").calls(), 1);
                }
            }
            assert_eq!(last_results(agent.messages()), ["c0: a"]);
        }
    }
}

/// Checks that the estimate of a sub-agent's tokens includes its tool results, if the vendor reports no usage.
#[tokio::test]
async fn agent_tokens_are_estimated_without_reported_usage() {
    let long = "long ".repeat(2_000);
    let none = TokenUsage::default;
    let scripts = Scripts::new([
        ("main", vec![asks(&["a"]), text("never")]),
        (
            "a",
            vec![
                calls([("x", "act", json!({ "text": long }))]).usage(none()),
                text("done").usage(none()),
            ],
        ),
    ]);
    let limits = UsageLimits::default().with_total_tokens_limit(5_000);
    let builder = parent(&scripts, &Log::default(), [("a", with_tools("a", &["act"]))]);
    let mut agent = Chat::new(builder.usage_limits(limits));
    let ended = run(Way::Run, &mut agent, &ToolContext::default()).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("token limit exceeded"), "{error}");
    // The call, the call in the next request, and its result.
    assert!(
        agent.conversation.tool_usage().total_tokens() > 7_500,
        "{:?}",
        agent.conversation.tool_usage()
    );
    assert_eq!(scripts.of("main").calls(), 1);
}

#[tokio::test]
async fn agents_share_the_budget_of_the_parent_run() {
    for way in WAYS {
        for parallel in [false, true] {
            let scripts = Scripts::new([
                ("main", vec![asks(&["a", "b"]), text("never")]),
                ("a", vec![calls([("x", "act", json!({}))]), text("a")]),
                ("b", vec![calls([("x", "act", json!({}))]), text("b")]),
            ]);
            let agents = ["a", "b"].map(|name| (name, with_tools(name, &["act"])));
            // The budget allows one request of `main` and three more, so one agent has no room.
            let budget = Budget::new(UsageLimits::default().with_request_limit(4));
            let builder = parent(&scripts, &Log::default(), agents).budget(budget.clone());
            let mut agent =
                Chat::new(builder.config(|config| config.parallel_tool_execution = parallel));
            let ended = run(way, &mut agent, &ToolContext::default()).await;
            let text = ended.unwrap_err().to_string();
            assert!(text.contains("budget: request limit exceeded: 5 > 4"), "{text}");
            assert_eq!(
                last_results(agent.messages()),
                [
                    "c0: a".to_owned(),
                    "c1: !the agent `b` failed: usage limit exceeded: budget: request limit \
                     exceeded: 5 > 4"
                        .to_owned()
                ]
            );
            assert_eq!((budget.requests(), budget.reserved_tokens()), (4, 0));
            // The agents charge their tokens themselves, so the parent run does not charge them again.
            assert_eq!(budget.usage(), usage(40, 4));
            assert_eq!(agent.conversation.usage(), &usage(40, 4));
            assert_eq!(budget.tool_calls(), 4);
        }
    }
}

#[tokio::test]
async fn own_limits_of_an_agent_apply_only_to_it() {
    let scripts = Scripts::new([
        ("main", vec![asks(&["a"]), asks(&["a"]), text("done")]),
        ("a", vec![text("one"), text("two")]),
    ]);
    let mut config = with_tools("a", &[]);
    config.settings.usage_limits = Some(UsageLimits::default().with_request_limit(1));
    let mut agent = Chat::new(parent(&scripts, &Log::default(), [("a", config)]));
    let result = agent.run("start", &ToolContext::default()).await;
    assert_eq!(result.unwrap().response, "done", "each run counts anew");
    assert!(matches!(
        agent.run("again", &ToolContext::default()).await,
        Err(LoopError::Provider(_))
    ));
}
