//! Tokens, in neuron's terms.

use neuron_types::TokenUsage;

use super::context::{TestContext, ask, steady};
use super::{Capabilities, ProviderHarness};
use crate::case::Case;
use neuron_testing::Reply;

/// Checks the counts of tokens, whole and streamed. The prompt's are all, cached ones included.
///
/// # Panics
///
/// At the first violation.
pub async fn usage<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "usage").await;
    let plain = TokenUsage { input_tokens: 21, output_tokens: 9, ..TokenUsage::default() };
    let read = ctx.can.cache_read_tokens;
    let created = ctx.can.cache_creation_tokens;
    let reasoning = ctx.can.reasoning_tokens;
    for (name, usage) in [
        ("input and output", plain.clone()),
        (
            "a large call",
            TokenUsage { input_tokens: 3_000_000, output_tokens: 128_000, ..plain.clone() },
        ),
        (
            "read from a cache",
            TokenUsage { cache_read_tokens: read.then_some(20), ..plain.clone() },
        ),
        (
            "written to a cache",
            TokenUsage { cache_creation_tokens: created.then_some(21), ..plain.clone() },
        ),
        ("reasoning", TokenUsage { reasoning_tokens: reasoning.then_some(7), ..plain.clone() }),
        (
            "all counts",
            TokenUsage {
                cache_read_tokens: read.then_some(12),
                cache_creation_tokens: created.then_some(5),
                reasoning_tokens: reasoning.then_some(8),
                ..plain
            },
        ),
    ] {
        let case = ctx.case(name);
        let reply = steady(Reply::text("Hello.")).usage(usage.clone());
        let response = ctx.both_of(&case, &ask(), reply.into()).await;
        check(&case, &ctx.can, &response.usage, &usage);
    }
}

fn check(case: &Case, can: &Capabilities, actual: &TokenUsage, expected: &TokenUsage) {
    case.equal("input_tokens", actual.input_tokens, expected.input_tokens);
    case.equal("output_tokens", actual.output_tokens, expected.output_tokens);
    // Nothing and none at all are the same to whoever pays.
    let count = |tokens: Option<usize>| tokens.unwrap_or(0);
    for (can, name, actual, expected) in [
        (
            can.cache_read_tokens,
            "cache_read_tokens",
            actual.cache_read_tokens,
            expected.cache_read_tokens,
        ),
        (
            can.cache_creation_tokens,
            "cache_creation_tokens",
            actual.cache_creation_tokens,
            expected.cache_creation_tokens,
        ),
        (
            can.reasoning_tokens,
            "reasoning_tokens",
            actual.reasoning_tokens,
            expected.reasoning_tokens,
        ),
    ] {
        if can {
            case.equal(name, count(actual), count(expected));
        }
    }
}
