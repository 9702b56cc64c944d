//! Tests of waits for signals and timers.

use std::time::Duration;

use neuron_types::{
    ApprovalDecisions, DurableContext, DurableError, PendingApproval, PendingCall, ToolCall,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::test_support::{edit_steps, look, opened, place};
use crate::{JournalError, RunStatus, SqliteRuns, StepKind, WaitEvent, WaitsFor};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn queued_signals_keep_their_order_across_processes() {
    let (_folder, path) = place();
    {
        let runs = SqliteRuns::open(&path).await.unwrap();
        drop(opened(&runs, "r").await);
        for value in [json!(1), Value::Null, json!({"a": [3]})] {
            runs.signal("r", "go", value).await.unwrap();
        }
        runs.signal("r", "other", "x").await.unwrap();
    }
    let runs = SqliteRuns::open(&path).await.unwrap();
    let receive = async |name: &str, timeout| {
        let durable = opened(&runs, "r").await;
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(durable.wait_for_signal::<Value>(name, timeout).await.unwrap());
        }
        all
    };
    // A signal with the value null is not a missing signal.
    let expected = [Some(json!(1)), Some(Value::Null), Some(json!({"a": [3]})), None];
    assert_eq!(receive("go", Duration::ZERO).await, expected);
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 1);
    // A replay returns the recorded signals, and takes none from the queue.
    runs.signal("r", "go", 4).await.unwrap();
    assert_eq!(receive("go", HOUR).await, expected);
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 2);
}

#[tokio::test]
async fn signal_to_an_unknown_run_or_too_long_is_an_error() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let error = runs.signal("r", "go", 1).await.unwrap_err();
    assert!(matches!(error, JournalError::NotFound { .. }), "{error:?}");
    drop(opened(&runs, "r").await);
    let error = runs.signal("r", "go", "x".repeat(2 << 20)).await.unwrap_err();
    assert!(matches!(error, JournalError::TooLong { .. }), "{error:?}");
    let deep = (0..300).fold(json!(1), |inner, _| json!([inner]));
    let error = runs.signal("r", "go", deep).await.unwrap_err();
    assert!(matches!(error, JournalError::NotJson { .. }), "{error:?}");
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 0);
}

/// Regression test. A run must be able to receive every signal that `signal` accepts. Signals with 255 and 256 nested
/// levels were once accepted, but a run could not read them.
#[tokio::test]
async fn accepted_nested_signals_can_be_received() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let durable = opened(&runs, "r").await;
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let mut sent = 0;
    for depth in 250..260 {
        match runs.signal("r", "go", nested(depth)).await {
            Ok(()) => {
                let received = durable.wait_for_signal::<Value>("go", HOUR).await.unwrap();
                assert_eq!(received, Some(nested(depth)));
                sent += 1;
            }
            Err(error) => assert!(matches!(error, JournalError::NotJson { .. }), "{error:?}"),
        }
    }
    assert_eq!(sent, 5);
}

#[tokio::test(start_paused = true)]
async fn signals_of_this_and_another_process_end_the_wait() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    // Like another process, this value shares only the file.
    let other = SqliteRuns::open(&path).await.unwrap();
    let durable = opened(&runs, "r").await;
    for sender in [&runs, &other] {
        let start = Instant::now();
        let wait = durable.wait_for_signal::<u32>("go", HOUR);
        let send = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            sender.signal("r", "go", 7).await.unwrap();
        };
        let (received, ()) = tokio::join!(wait, send);
        assert_eq!(received.unwrap(), Some(7));
        assert!(start.elapsed() <= Duration::from_secs(101), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn replayed_wait_keeps_its_first_deadline() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let wait = async |timeout| {
        let durable = opened(&runs, "r").await;
        let start = Instant::now();
        let received = durable.wait_for_signal::<u32>("go", timeout).await.unwrap();
        assert_eq!(received, None);
        start.elapsed()
    };
    {
        // The wait is dropped before its end, as if the process had been killed.
        let durable = opened(&runs, "r").await;
        let wait = durable.wait_for_signal::<u32>("go", HOUR);
        tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_err();
        let details = runs.inspect("r").await.unwrap();
        assert_eq!(details.summary.status, RunStatus::Waiting);
        assert!(details.is_held);
        let step = &details.steps[0];
        assert_eq!((step.key.as_str(), step.kind), ("signal/0", StepKind::Signal));
        let deadline = Some(step.begun_at + HOUR);
        let mut expected = WaitsFor::new(WaitEvent::Signal { name: "go".into() });
        expected.deadline = deadline;
        expected.since = Some(step.begun_at);
        assert_eq!(details.summary.waits_for, Some(expected));
    }
    // As if the wait had begun 59 minutes ago.
    edit_steps(&path, &[0], |step| step.deadline = step.deadline.map(|end| end - 59 * 60_000));
    let took = wait(HOUR).await;
    assert!(took <= Duration::from_secs(61), "{took:?}");
    assert_eq!(wait(HOUR).await, Duration::ZERO);
}

/// Regression test. A wait must not take longer after the system clock was set back. Its deadline must be calculated
/// from the system clock, because the journal's clock is then ahead.
#[tokio::test(start_paused = true)]
async fn clock_set_back_does_not_extend_a_wait() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    opened(&runs, "r").await.sleep(Duration::ZERO).await;
    edit_steps(&path, &[0], |step| step.ended_at = step.ended_at.map(|at| at + 3_600_000));
    let durable = opened(&runs, "r").await;
    durable.sleep(Duration::ZERO).await;
    let minute = Duration::from_secs(60);
    let (start, before) = (Instant::now(), durable.now());
    durable.sleep(minute).await;
    assert_eq!(durable.wait_for_signal::<Value>("go", minute).await.unwrap(), None);
    assert!(start.elapsed() <= minute * 2 + Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(durable.now() >= before);
}

#[tokio::test(start_paused = true)]
async fn replayed_timer_waits_only_for_the_remaining_time() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let now = {
        let durable = opened(&runs, "r").await;
        let before = durable.now();
        let half = tokio::time::timeout(HOUR / 2, durable.sleep(HOUR)).await;
        half.unwrap_err();
        let waits_for = runs.inspect("r").await.unwrap().summary.waits_for.unwrap();
        assert_eq!(waits_for.event, WaitEvent::Time);
        let until = waits_for.deadline;
        edit_steps(&path, &[0], |step| step.deadline = step.deadline.map(|end| end - 1_800_000));
        let start = Instant::now();
        durable.sleep(HOUR).await;
        assert!(start.elapsed() <= HOUR / 2, "{:?}", start.elapsed());
        assert!(until.unwrap() > before && durable.now() > before);
        durable.now()
    };
    let durable = opened(&runs, "r").await;
    let start = Instant::now();
    durable.sleep(HOUR).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(durable.now(), now);
    // A wait whose end is later than any date can be stored too.
    tokio::time::timeout(HOUR, durable.sleep(Duration::MAX)).await.unwrap_err();
    let waits_for = runs.inspect("r").await.unwrap().summary.waits_for.unwrap();
    assert_eq!((waits_for.event, waits_for.deadline), (WaitEvent::Time, None));
}

#[tokio::test]
async fn signal_of_another_type_is_consumed_and_fails_on_replay() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    for _ in 0..2 {
        let durable = opened(&runs, "r").await;
        if !durable.is_replaying() {
            runs.signal("r", "go", "no number").await.unwrap();
            runs.signal("r", "go", 5).await.unwrap();
        }
        let error = durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, DurableError::Other(_)), "{error:?}");
        let next = durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap();
        assert_eq!(next, Some(5));
    }
}

#[tokio::test(start_paused = true)]
async fn pending_calls_are_shown_until_the_decision() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let durable = opened(&runs, "r").await;
    let call = ToolCall { id: "c".into(), name: "pay".into(), input: json!({"sum": 3}) };
    let inner = PendingApproval::new("inner", vec![PendingCall::new(call.clone(), "sure?")]);
    let mut outer_call = PendingCall::new(call, "really?");
    outer_call.nested = Some(Box::new(inner));
    let mut pending = PendingApproval::new("r", vec![outer_call]);
    pending.messages = vec![neuron_types::Message::user("long ".repeat(1000))];
    let decisions = ApprovalDecisions::approve_all(&pending);

    let wait = durable.wait_for_approval(&pending, "decide", HOUR);
    let decide = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let details = runs.inspect("r").await.unwrap();
        let event = details.summary.waits_for.clone().map(|waits_for| waits_for.event);
        let Some(WaitEvent::Approval { signal: Some(name), pending: Some(shown) }) = event else {
            panic!("{details:?}");
        };
        assert_eq!((name.as_str(), &shown.calls), ("decide", &pending.calls));
        assert!(shown.messages.is_empty(), "the conversation is in the journal already");
        shown.check(&decisions).unwrap();
        runs.signal("r", "decide", &decisions).await.unwrap();
    };
    let (decided, ()) = tokio::join!(wait, decide);
    assert_eq!(decided.unwrap(), Some(decisions));
    let details = runs.inspect("r").await.unwrap();
    assert_eq!(details.summary.waits_for, None);
    assert_eq!(look(&path, "SELECT count(pending) FROM steps"), 0);
}

#[tokio::test]
async fn replay_with_another_signal_name_fails() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    {
        let durable = opened(&runs, "r").await;
        durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap();
    }
    let durable = opened(&runs, "r").await;
    let error = durable.wait_for_signal::<u32>("stop", Duration::ZERO).await.unwrap_err();
    let text = "replay differs from the journal: expected signal/0 of `go`, got signal/0 of `stop`";
    assert_eq!(error.to_string(), text);
    // `sleep` cannot return an error, so the next step returns it.
    durable.sleep(Duration::ZERO).await;
    let error = durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap_err();
    let text = "replay differs from the journal: expected signal/0, got sleep/0";
    assert_eq!(error.to_string(), text);
    durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap();
}
