//! Tests of the durable suite. Correct engines pass, and each broken one fails in the part that checks its
//! behaviour.

mod caught;
mod killed;
mod reference;

use neuron_conformance_durable::{LocalEngine, Verdict, check_durable_engine};

use crate::reference::Reference;

/// All parts apply to this engine.
#[tokio::test]
async fn a_journal_that_holds() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Reference::new(directory.path());
    let suite = check_durable_engine(&engine);
    // A user's runtime may move it between threads.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    let report = is_send(suite).await;
    assert_eq!(report.verdicts.len(), 19);
    assert!(report.not_applicable().is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_on_several_threads() {
    let directory = tempfile::tempdir().unwrap();
    let report = check_durable_engine(&Reference::new(directory.path())).await;
    assert!(report.not_applicable().is_empty(), "{report}");
}

/// Some parts do not apply to a context without a journal.
#[tokio::test]
async fn no_journal() {
    let report = check_durable_engine(&LocalEngine::default()).await;
    let expected = [
        "replaying",
        "clock",
        "recorded_values",
        "changed_code",
        "record_limit",
        "growth",
        "continuing",
        "cancelling",
        "effect_keys",
    ];
    assert_eq!(report.not_applicable(), expected, "{report}");
    let text = report.to_string();
    assert!(text.contains("growth: NOT TRIED: the engine does not say"), "{text}");
    assert!(text.contains("limits: holds\n"), "{text}");
    assert!(report.verdicts.contains(&("replaying", Verdict::NotApplicable("runs are not kept"))));
}
