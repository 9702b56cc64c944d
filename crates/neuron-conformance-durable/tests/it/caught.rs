//! Tests that the suite detects engines that are broken in one way.

use std::future::Future;

use crate::reference::Reference;

/// Checks that a part of the suite fails, and that its message contains `says`.
async fn caught<T: Send + 'static>(part: impl Future<Output = T> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(_) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.starts_with("the durable engine does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// Generates tests in which the suite must detect a broken engine. Each line of the input has four items:
/// - The name of the test.
/// - The mutation that breaks the engine.
/// - The part of the suite that must fail.
/// - A substring of the panic message.
macro_rules! caught {
    ($($name:ident: $mutation:ident by $part:ident: $says:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let directory = tempfile::tempdir().unwrap();
            let engine = Reference::broken(directory.path(), stringify!($mutation));
            caught(async move { neuron_conformance_durable::$part(&engine).await }, $says).await;
        }
    )*};
}

caught! {
    forgotten_responses_are_detected: ForgetsAnswers by replaying: "run again: what was done";
    forgotten_summaries_are_detected: ForgetsSummaries by replaying: "run again: what was done";
    repeated_tool_calls_are_detected: ForgetsTools by replaying: "run again: what was done";
    forgotten_tool_usage_is_detected: ForgetsToolUsage by replaying: "run again: the usage";
    doubled_tool_usage_is_detected: CountsToolUsageTwice by replaying: "crash: the usage";
    lost_message_is_detected: DropsLastMessage by replaying: "the number of messages";
    errors_without_their_kind_are_detected: ErrorsAreTexts by model_errors: "the outcome";
    forgotten_model_errors_are_detected: ForgetsErrors by model_errors: "run again: what was done";
    retry_hint_stored_as_failure_is_detected: RetryIsFailure by tool_errors: "message";
    results_in_order_of_completion_are_detected: ResultsAsTheyCome by parallel_tools: "message";
    tools_without_scopes_are_detected: RunsInNoScope by tool_scopes: "the scopes around call-0-";
    shared_scopes_are_detected: RunsInOneScope by tool_scopes: "the scopes around call-0-";
    scopes_during_replay_are_detected: ReplaysInScope by tool_scopes: "replays included";
    forgotten_signals_are_detected: ForgetsSignals by signals: "run again";
    late_signal_that_changes_a_replay_is_detected: ForgetsThatNoneCame by signals: "run again";
    lost_early_signals_are_detected: LosesEarlySignals by signals: "";
    signals_in_reverse_order_are_detected: NewestSignalFirst by signals: "signals: message 0";
    clock_that_changes_on_replay_is_detected: LivingClock by clock: "run again: message 0";
    clock_that_goes_back_is_detected: ClockGoesBack by clock: "went back";
    unnoticed_changed_code_is_detected: IgnoresDigests by changed_code: "unnoticed";
    change_error_without_the_field_is_detected: NamesNoField by changed_code: "does not name what changed";
    digest_of_only_the_last_message_is_detected: DigestsOneMessage by changed_code: "unnoticed";
    run_lost_after_changed_code_is_detected: PoisonsRuns by changed_code: "the right code";
    journaled_requests_are_detected: JournalsRequests by growth: "turns of one size take";
    missing_record_limit_is_detected: NoRecordLimit by record_limit: "the model sees no error";
    repeated_call_with_a_huge_result_is_detected: HugeIsNotRecorded by record_limit: "run again";
    usage_lost_by_continuing_is_detected: ContinuesWithoutUsage by continuing: "the usage";
    turns_lost_by_continuing_are_detected: ContinuesWithoutTurns by continuing: "the turns";
    missing_recorded_values_are_detected: RecordsNothing by recorded_values: "run again: message";
    repeated_keyed_effects_are_detected: ForgetsEffects by effect_keys: "the effects";
    effects_lost_by_continuing_are_detected: ContinuesWithoutEffects by effect_keys: "the effects";
    run_that_does_not_continue_is_detected: ContinuesWithoutEnd by continuing: "the outcome";
    doubled_deltas_are_detected: DeltasTwice by streams: "deltas are wrong";
    missing_deltas_are_detected: NoDeltas by streams: "streamed, and not";
    wrong_error_of_a_cancelled_run_is_detected: CancelIsAFailure by cancelling: "another error";
    missing_retries_are_detected: NoRetries by retries: "";
    retries_of_calls_that_must_not_repeat_are_detected: RetriesAll by retries: "";
    immediate_retries_of_tool_errors_are_detected: RetriesAll by tool_errors: "";
}
