//! Tests that the provider suite finds faults. A correct provider is changed in one way at a time, and the part of the
//! suite that checks this behaviour must fail.

mod mutant;
mod plain;

use std::future::Future;

use mutant::{Harness, Mutation};
use neuron_conformance::{check_provider, provider};
use plain::{Decoding, Plain};

/// Checks that a part of the suite fails with a message that names the case.
async fn caught(part: impl Future<Output = ()> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(()) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("the provider does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// Writes one test per mutation, with the part that must fail and a piece of its message. The first argument is passed
/// to `tokio::test`.
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
    the_last_piece_of_text_is_lost: LosesLastDelta by text: "the text of all deltas";
    the_last_piece_of_the_message_is_lost_too: ShortensStreams by text: "the answer";
    white_space_is_trimmed: TrimsText by text: "white space";
    the_answer_comes_twice: EndsTwice by text: "a stream ends with Usage, MessageComplete and ResponseComplete";
    the_tokens_come_last: UsageLast by text: "a stream ends with Usage, MessageComplete and ResponseComplete";
    calls_by_value_are_others: ByValueIsAnother by text: "a request by value";
    several_calls_become_one: MergesCalls by tools: "several calls at once";
    the_order_of_arguments_is_lost: SortsArguments by tools: "an order of their own";
    calls_that_were_cut_off_are_run: RunsInvalidCalls by tools: "nobody must run that call";
    calls_that_were_cut_off_get_no_arguments: EmptiesInvalidCalls by tools: "the arguments";
    calls_do_not_end: LosesToolUseEnd by tools: "ToolUseEnd";
    ids_of_calls_are_made_up: RenamesCalls by tools: "the call's id";
    reasoning_is_dropped: DropsThinking by thinking: "the reasoning";
    reasoning_does_not_go_back: ForgetsThinking by thinking: "the reasoning is not in the next request";
    signatures_do_not_go_back: ForgetsSignatures by thinking: "not in the next request";
    images_are_dropped: DropsMedia by requests: "an image";
    schemas_are_dropped: DropsSchemas by requests: "a schema for the answer";
    the_choice_of_a_tool_is_dropped: DropsToolChoice by requests: "has the same body";
    the_system_prompt_is_dropped: DropsSystem by requests: "of the system";
    each_request_is_another: CountsRequests by requests: "equal requests";
    the_beginning_changes: ChangesTheBeginning by prefixes: "does not begin with";
    the_tools_change_places: RotatesTools by prefixes: "the tools";
    tokens_are_swallowed: SwallowsUsage by usage: "input_tokens";
    tokens_of_streams_are_swallowed: SwallowsUsageOfStreams by usage: "the answer";
    cached_tokens_are_counted_twice: CountsCacheTwice by usage: "input_tokens";
    every_answer_ends_well: AlwaysEndsWell by stop_reasons: "ToolUse";
    a_cut_answer_looks_whole: HidesMaxTokens by stop_reasons: "MaxTokens";
    delays_are_dropped: DropsRetryAfter by errors: "the delay";
    a_quota_is_a_rate_limit: QuotaIsRateLimit by errors: "InsufficientResources";
    errors_have_no_text: DropsErrorTexts by errors: "lacks because-of";
    every_error_is_one: EveryErrorIsOther by errors: "the error's kind";
    errors_in_streams_are_one: StreamErrorsAreOne by stream_errors: "the error's kind";
    errors_in_streams_end_them: EndsAtErrors by stream_errors: "a broken stream ends with an error";
    debug_shows_the_key: ShowsKey by keys: "the provider's Debug";
    errors_show_the_key: ShowsKeyInErrors by keys: "shows the key";
    an_early_end_is_an_answer: EndsEarly by cuts: "a broken stream gave an answer";
    a_broken_connection_is_an_answer: SurvivesBreaks by cuts: "a broken stream gave an answer";
    a_broken_stream_can_be_repeated: BreaksAreRetryable by cuts: "the error's kind";
    calls_go_on_when_nobody_waits: GoesOnWithoutReader by dropping: "a call: hangs";
    answers_are_mixed_up: MixesAnswers by concurrency: "the texts";
    streams_are_read_ahead: ReadsAhead by streaming: "a slow reader: everything was read";
    each_call_opens_a_connection: ConnectsAnew by connections: "the number of connections";
    errors_do_not_name_the_server: HidesServer by connection_errors: "lacks http://";
    broken_answers_cannot_be_repeated: BreaksAreFinal by connection_errors: "the error's kind";
    cut_answers_cannot_be_repeated: BreaksAreFinal by cuts: "the error's kind";
    redirects_are_followed: FollowsRedirects by redirects: "connections to the location";
    errors_show_everything: ShowsPages by body_limits: "is enough";
    nothing_has_a_limit: NeverTimesOut by timeouts: "no answer: hangs";
    streams_have_the_limit_of_an_answer: LimitsStreams by timeouts: "longer than a whole answer";
    keys_are_corrected: CorrectsKeys by keys: "lacks header";
}

// With a paused clock, no time is lost on calls that hang.
caught! { (start_paused = true)
    streams_are_buffered: BuffersStreams by streaming: "the first text: ";
}

/// Checks that the suite fails in its child process. The panic message shows the output of that process.
#[tokio::test]
async fn a_proxy_is_asked_for_this_machine() {
    let test = concat!(module_path!(), "::a_proxy_is_asked_for_this_machine");
    let part = async { provider::environment(&Harness(Mutation::UsesProxy), test).await };
    match std::env::var_os("http_proxy").is_some_and(|proxy| proxy == "http://127.0.0.1:9") {
        true => part.await,
        false => caught(part, "a proxy that does not run").await,
    }
}

#[tokio::test]
async fn a_call_panics_outside_of_a_runtime() {
    let part = async { provider::environment(&Harness(Mutation::NeedsRuntime), "").await };
    caught(part, "it panics").await;
}

/// The provider without a mutation conforms.
#[tokio::test]
async fn environment() {
    let test = concat!(module_path!(), "::environment");
    provider::environment(&Harness(Mutation::None), test).await;
}

#[tokio::test]
async fn nothing_is_caught_where_nothing_is_broken() {
    let suite = check_provider(&Harness(Mutation::None));
    // A user's runtime may move the future between threads.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    is_send(suite).await;
}

#[tokio::test]
async fn pieces_that_are_decoded_by_themselves() {
    provider::splits(&Plain(Decoding::Whole)).await;
    caught(async { provider::splits(&Plain(Decoding::ByPiece)).await }, "a stream split").await;
}

/// Events after the last required event may be missing.
#[tokio::test]
async fn a_stream_may_lack_what_nobody_needs() {
    provider::cuts(&Plain(Decoding::Whole)).await;
}
