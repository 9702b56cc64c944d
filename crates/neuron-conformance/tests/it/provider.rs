//! Tests that the provider suite detects faults. Each test breaks a correct provider in one way, and the matching part
//! of the suite must fail.

mod mutant;
mod plain;

use std::future::Future;

use mutant::{Harness, Mutation};
use neuron_conformance::{check_provider, provider};
use plain::{Decoding, Plain};

/// Checks that a part of the suite panics with a message that contains `says`.
async fn caught(part: impl Future<Output = ()> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(()) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("the provider does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// Generates tests in which the suite must detect a broken provider. Each line of the input has four items:
/// - The name of the test.
/// - The mutation that breaks the provider.
/// - The part of the suite that must fail.
/// - A substring of the panic message.
///
/// The first argument of the macro is passed to `tokio::test`.
macro_rules! caught {
    ($runtime:tt $($name:ident: $mutation:ident by $part:ident: $says:literal;)*) => {$(
        #[tokio::test $runtime]
        async fn $name() {
            let part = async { provider::$part(&Harness(Mutation::$mutation)).await };
            caught(part, $says).await;
        }
    )*};
}

caught! { ()
    text_catches_a_lost_last_delta: LosesLastDelta by text: "the text of all deltas";
    text_catches_a_shortened_stream: ShortensStreams by text: "the answer";
    text_catches_trimmed_white_space: TrimsText by text: "white space";
    text_catches_two_responses: EndsTwice by text: "a stream ends with Usage, MessageComplete and ResponseComplete";
    text_catches_late_usage: UsageLast by text: "a stream ends with Usage, MessageComplete and ResponseComplete";
    text_catches_a_different_call_by_value: ByValueIsAnother by text: "a request by value";
    tools_catches_merged_calls: MergesCalls by tools: "several calls at once";
    tools_catches_sorted_arguments: SortsArguments by tools: "an order of their own";
    tools_catches_tool_use_with_invalid_arguments: RunsInvalidCalls by tools: "nobody must run that call";
    tools_catches_emptied_invalid_arguments: EmptiesInvalidCalls by tools: "the arguments";
    tools_catches_missing_tool_use_end: LosesToolUseEnd by tools: "ToolUseEnd";
    tools_catches_renamed_call_ids: RenamesCalls by tools: "the call's id";
    thinking_catches_dropped_reasoning: DropsThinking by thinking: "the reasoning";
    thinking_catches_unsent_reasoning: ForgetsThinking by thinking: "the reasoning is not in the next request";
    thinking_catches_unsent_signatures: ForgetsSignatures by thinking: "not in the next request";
    requests_catches_dropped_images: DropsMedia by requests: "an image";
    requests_catches_dropped_schemas: DropsSchemas by requests: "a schema for the answer";
    requests_catches_a_dropped_tool_choice: DropsToolChoice by requests: "has the same body";
    requests_catches_a_dropped_system_prompt: DropsSystem by requests: "of the system";
    requests_catches_different_bytes_for_equal_requests: CountsRequests by requests: "equal requests";
    prefixes_catches_a_changed_prefix: ChangesTheBeginning by prefixes: "does not begin with";
    prefixes_catches_reordered_tools: RotatesTools by prefixes: "the tools";
    usage_catches_missing_tokens: SwallowsUsage by usage: "input_tokens";
    usage_catches_missing_tokens_of_streams: SwallowsUsageOfStreams by usage: "the answer";
    usage_catches_cached_tokens_counted_twice: CountsCacheTwice by usage: "input_tokens";
    stop_reasons_catches_end_turn_for_every_response: AlwaysEndsWell by stop_reasons: "ToolUse";
    stop_reasons_catches_hidden_max_tokens: HidesMaxTokens by stop_reasons: "MaxTokens";
    errors_catches_dropped_retry_delays: DropsRetryAfter by errors: "the delay";
    errors_catches_a_quota_as_rate_limit: QuotaIsRateLimit by errors: "InsufficientResources";
    errors_catches_missing_texts: DropsErrorTexts by errors: "lacks because-of";
    errors_catches_one_kind_for_all_errors: EveryErrorIsOther by errors: "the error's kind";
    stream_errors_catches_one_kind_for_all_errors: StreamErrorsAreOne by stream_errors: "the error's kind";
    stream_errors_catches_an_end_without_error: EndsAtErrors by stream_errors: "a broken stream ends with an error";
    keys_catches_a_key_in_debug: ShowsKey by keys: "the provider's Debug";
    keys_catches_a_key_in_errors: ShowsKeyInErrors by keys: "shows the key";
    cuts_catches_an_early_end_as_response: EndsEarly by cuts: "a broken stream gave an answer";
    cuts_catches_a_broken_connection_as_response: SurvivesBreaks by cuts: "a broken stream gave an answer";
    cuts_catches_a_retryable_broken_stream: BreaksAreRetryable by cuts: "the error's kind";
    dropping_catches_calls_that_continue: GoesOnWithoutReader by dropping: "a call: hangs";
    concurrency_catches_mixed_responses: MixesAnswers by concurrency: "the texts";
    streaming_catches_reading_ahead: ReadsAhead by streaming: "a slow reader: everything was read";
    connections_catches_a_new_connection_per_call: ConnectsAnew by connections: "the number of connections";
    connection_errors_catches_missing_server_url: HidesServer by connection_errors: "lacks http://";
    connection_errors_catches_final_errors: BreaksAreFinal by connection_errors: "the error's kind";
    cuts_catches_final_errors: BreaksAreFinal by cuts: "the error's kind";
    redirects_catches_followed_redirects: FollowsRedirects by redirects: "connections to the location";
    body_limits_catches_unlimited_error_texts: ShowsPages by body_limits: "is enough";
    timeouts_catches_calls_without_limit: NeverTimesOut by timeouts: "no answer: hangs";
    timeouts_catches_a_limit_for_whole_streams: LimitsStreams by timeouts: "longer than a whole answer";
    keys_catches_corrected_keys: CorrectsKeys by keys: "lacks header";
}

// The mutant hangs until a time limit. With a paused clock, the limit passes immediately.
caught! { (start_paused = true)
    streaming_catches_buffered_streams: BuffersStreams by streaming: "the first text: ";
}

/// Checks that the suite detects a provider that uses the environment's proxy for a loopback address.
///
/// The suite sets the variable `http_proxy` in a child process. The panic message contains the output of this process.
#[tokio::test]
async fn environment_catches_a_proxy_for_loopback() {
    let test = concat!(module_path!(), "::environment_catches_a_proxy_for_loopback");
    let part = async { provider::environment(&Harness(Mutation::UsesProxy), test).await };
    match std::env::var_os("http_proxy").is_some_and(|proxy| proxy == "http://127.0.0.1:9") {
        true => part.await,
        false => caught(part, "a proxy that does not run").await,
    }
}

#[tokio::test]
async fn environment_catches_a_panic_outside_of_a_runtime() {
    let part = async { provider::environment(&Harness(Mutation::NeedsRuntime), "").await };
    caught(part, "it panics").await;
}

/// Checks that a correct provider passes the part `environment` of the suite.
#[tokio::test]
async fn environment() {
    let test = concat!(module_path!(), "::environment");
    provider::environment(&Harness(Mutation::None), test).await;
}

#[tokio::test]
async fn correct_provider_passes() {
    let suite = check_provider(&Harness(Mutation::None));
    // A multi-threaded runtime needs a `Send` future.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    is_send(suite).await;
}

#[tokio::test]
async fn splits_catches_chunks_decoded_separately() {
    provider::splits(&Plain(Decoding::Whole)).await;
    caught(async { provider::splits(&Plain(Decoding::ByPiece)).await }, "a stream split").await;
}

/// Checks that `cuts` accepts a stream without its optional last events. These events follow the event that completes
/// the response.
#[tokio::test]
async fn cuts_accepts_missing_optional_frames() {
    provider::cuts(&Plain(Decoding::Whole)).await;
}
