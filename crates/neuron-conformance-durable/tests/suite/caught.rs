//! Engines that are broken in one way.

use std::future::Future;

use crate::reference::Reference;

/// Checks that a part of the suite fails with a message that names the case.
async fn caught<T: Send + 'static>(part: impl Future<Output = T> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(_) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.starts_with("the durable engine does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// A test per mutation, with the part that must fail and a piece of its message.
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
    answers_are_forgotten: ForgetsAnswers by replaying: "run again: what was done";
    summaries_are_forgotten: ForgetsSummaries by replaying: "run again: what was done";
    tools_run_again: ForgetsTools by replaying: "run again: what was done";
    what_tools_took_is_forgotten: ForgetsToolUsage by replaying: "run again: the usage";
    what_tools_took_counts_twice: CountsToolUsageTwice by replaying: "crash: the usage";
    a_message_is_lost: DropsLastMessage by replaying: "the number of messages";
    failures_are_texts: ErrorsAreTexts by model_errors: "the outcome";
    failures_are_forgotten: ForgetsErrors by model_errors: "run again: what was done";
    a_retry_is_a_failure: RetryIsFailure by tool_errors: "message";
    results_come_as_they_end: ResultsAsTheyCome by parallel_tools: "message";
    tools_are_in_no_scope: RunsInNoScope by tool_scopes: "the scopes around call-0-";
    calls_share_a_scope: RunsInOneScope by tool_scopes: "the scopes around call-0-";
    a_replay_enters_scopes: ReplaysInScope by tool_scopes: "replays included";
    signals_are_forgotten: ForgetsSignals by signals: "run again";
    a_late_signal_changes_the_past: ForgetsThatNoneCame by signals: "run again";
    early_signals_are_lost: LosesEarlySignals by signals: "";
    the_newest_signal_comes_first: NewestSignalFirst by signals: "signals: message 0";
    the_clock_lives_on: LivingClock by clock: "run again: message 0";
    the_clock_goes_back: ClockGoesBack by clock: "went back";
    changed_code_goes_on: IgnoresDigests by changed_code: "unnoticed";
    an_error_names_no_field: NamesNoField by changed_code: "does not name what changed";
    only_the_last_message_counts: DigestsOneMessage by changed_code: "unnoticed";
    a_run_is_lost_to_changed_code: PoisonsRuns by changed_code: "the right code";
    requests_are_journaled: JournalsRequests by growth: "turns of one size take";
    records_have_no_limit: NoRecordLimit by record_limit: "the model sees no error";
    what_is_huge_is_paid_again: HugeIsNotRecorded by record_limit: "run again";
    usage_begins_anew: ContinuesWithoutUsage by continuing: "the usage";
    limits_begin_anew: ContinuesWithoutTurns by continuing: "the turns";
    values_are_not_recorded: RecordsNothing by recorded_values: "run again: message";
    effects_run_again: ForgetsEffects by effect_keys: "the effects";
    effects_are_forgotten_in_between: ContinuesWithoutEffects by effect_keys: "the effects";
    nobody_continues: ContinuesWithoutEnd by continuing: "the outcome";
    deltas_come_twice: DeltasTwice by streams: "deltas are wrong";
    deltas_do_not_come: NoDeltas by streams: "streamed, and not";
    a_cancelled_run_says_something_else: CancelIsAFailure by cancelling: "another error";
    nothing_is_tried_again: NoRetries by retries: "";
    all_is_tried_again: RetriesAll by retries: "";
    all_is_tried_again_at_once: RetriesAll by tool_errors: "";
}
