//! Tokens, in neuron's terms.

use neuron_types::TokenUsage;

use super::ProviderHarness;
use super::context::{TestContext, ask, steady};
use neuron_testing::Reply;

/// Checks the counts of tokens, whole and streamed. The prompt's are all, cached ones included.
///
/// # Panics
///
/// At the first violation.
pub async fn usage<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "usage").await;
    let can = &ctx.can;
    for (name, input_tokens, output_tokens, [read, created, reasoning]) in [
        ("input and output", 21, 9, [None, None, None]),
        ("a large call", 3_000_000, 128_000, [None, None, None]),
        ("read from a cache", 21, 9, [Some(20), None, None]),
        ("written to a cache", 21, 9, [None, Some(21), None]),
        ("reasoning", 21, 9, [None, None, Some(7)]),
        ("all counts", 21, 9, [Some(12), Some(5), Some(8)]),
    ] {
        let case = ctx.case(name);
        let usage = TokenUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read.filter(|_| can.cache_read_tokens),
            cache_creation_tokens: created.filter(|_| can.cache_creation_tokens),
            reasoning_tokens: reasoning.filter(|_| can.reasoning_tokens),
            ..TokenUsage::default()
        };
        let reply = steady(Reply::text("Hello.")).usage(usage);
        let usage = ctx.both_of(&case, &ask(), reply.into()).await.usage;
        case.equal("input_tokens", usage.input_tokens, input_tokens);
        case.equal("output_tokens", usage.output_tokens, output_tokens);
        for (can, name, actual, expected) in [
            (can.cache_read_tokens, "cache_read_tokens", usage.cache_read_tokens, read),
            (
                can.cache_creation_tokens,
                "cache_creation_tokens",
                usage.cache_creation_tokens,
                created,
            ),
            (can.reasoning_tokens, "reasoning_tokens", usage.reasoning_tokens, reasoning),
        ] {
            // Nothing and none at all are the same to whoever pays.
            if can {
                case.equal(name, actual.unwrap_or(0), expected.unwrap_or(0));
            }
        }
    }
}
