//! Tests of signals and timers.

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
async fn signals_wait_in_their_order_and_survive() {
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
    // A null that came is a signal, and not none.
    let expected = [Some(json!(1)), Some(Value::Null), Some(json!({"a": [3]})), None];
    assert_eq!(receive("go", Duration::ZERO).await, expected);
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 1);
    // Replay waits for nobody, whatever is in the queue now.
    runs.signal("r", "go", 4).await.unwrap();
    assert_eq!(receive("go", HOUR).await, expected);
    assert_eq!(look(&path, "SELECT count(*) FROM signals"), 2);
}

#[tokio::test]
async fn a_signal_to_no_run_or_that_cannot_be_stored_is_an_error() {
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

/// Signals of 255 and 256 levels were accepted but could not be received, so each resumption of the run ended with
/// an error.
#[tokio::test]
async fn what_can_be_sent_can_be_received() {
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
async fn a_signal_from_here_and_one_from_another_process_end_the_wait() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    // As another process has it: nothing but the file in common.
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
async fn a_deadline_is_that_of_the_first_wait() {
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
        // It is dropped in the middle, as if the process had been killed.
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
    // It began 59 minutes ago.
    edit_steps(&path, &[0], |step| step.deadline = step.deadline.map(|end| end - 59 * 60_000));
    let took = wait(HOUR).await;
    assert!(took <= Duration::from_secs(61), "{took:?}");
    assert_eq!(wait(HOUR).await, Duration::ZERO);
}

/// A wait began by the journal's clock and was measured by the system's, so it took longer if the system's clock
/// had gone back.
#[tokio::test(start_paused = true)]
async fn a_clock_that_went_back_makes_no_wait_longer() {
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
async fn a_timer_is_stored_as_it_begins_and_does_not_begin_anew() {
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
    // A wait that no date ends can be stored too.
    tokio::time::timeout(HOUR, durable.sleep(Duration::MAX)).await.unwrap_err();
    let waits_for = runs.inspect("r").await.unwrap().summary.waits_for.unwrap();
    assert_eq!((waits_for.event, waits_for.deadline), (WaitEvent::Time, None));
}

#[tokio::test]
async fn what_is_no_such_value_is_used_up_and_so_it_is_on_replay() {
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
async fn an_approval_shows_its_calls_until_it_is_decided() {
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
async fn another_signal_than_the_journal_has_is_noticed() {
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
    // What has no error of its own fails with the next step.
    durable.sleep(Duration::ZERO).await;
    let error = durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap_err();
    let text = "replay differs from the journal: expected signal/0, got sleep/0";
    assert_eq!(error.to_string(), text);
    durable.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap();
}
