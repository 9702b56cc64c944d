//! Several calls of one provider at once.

use futures_util::future::join_all;
use neuron_types::Provider;

use super::ProviderHarness;
use super::context::{TestContext, ask, steady};
use neuron_testing::Reply;

/// Number of calls at the same time.
const CALLS: usize = 12;

/// Checks that calls at the same time, whole and streamed, get an answer each.
///
/// # Panics
///
/// At the first violation.
pub async fn concurrency<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "concurrency").await;
    let case = ctx.case(format_args!("{CALLS} calls at once"));
    let mut texts: Vec<String> = (0..CALLS).map(|call| format!("{call:02} ").repeat(200)).collect();
    for text in &texts {
        ctx.server.push(steady(Reply::text(text.clone()).chunk_chars(7)));
    }
    let request = ask();
    let calls = (0..CALLS).map(|call| {
        let (provider, request) = (&ctx.provider, &request);
        async move {
            match call % 2 {
                0 => provider.complete_ref(request).await,
                _ => provider.complete_stream_ref(request).await?.into_response().await,
            }
        }
    });
    let answers = case.soon(join_all(calls)).await;
    let mut answers: Vec<String> =
        answers.into_iter().map(|answer| case.ok(answer).message.text()).collect();
    answers.sort_unstable();
    texts.sort_unstable();
    case.equal("the texts", answers, texts);
}
