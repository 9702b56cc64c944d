//! Tests that the durable suite detects faults. A correct engine must pass all parts, and a broken engine must fail in
//! the matching part.

mod caught;
mod effects;
mod killed;
mod reference;
mod scenario;

use neuron_conformance_durable::{LocalEngine, Verdict, check_durable_engine};

use crate::reference::Reference;

/// Checks that a correct engine passes the suite, and that no part is reported as not applicable.
#[tokio::test]
async fn correct_engine_passes_all_parts() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Reference::new(directory.path());
    let suite = check_durable_engine(&engine);
    // The runtime of a user may move the suite between threads.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    let report = is_send(suite).await;
    assert_eq!(report.verdicts.len(), 20);
    assert_eq!(report.not_applicable(), ["shared_effect_keys"], "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correct_engine_passes_all_parts_on_several_threads() {
    let directory = tempfile::tempdir().unwrap();
    let report = check_durable_engine(&Reference::new(directory.path())).await;
    assert_eq!(report.not_applicable(), ["shared_effect_keys"], "{report}");
}

/// Checks which parts the suite reports as not applicable for an engine without a journal.
#[tokio::test]
async fn engine_without_a_journal_reports_not_applicable_parts() {
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
        "shared_effect_keys",
    ];
    assert_eq!(report.not_applicable(), expected, "{report}");
    let text = report.to_string();
    assert!(text.contains("growth: NOT TRIED: the engine does not say"), "{text}");
    assert!(text.contains("limits: holds\n"), "{text}");
    assert!(report.verdicts.contains(&("replaying", Verdict::NotApplicable("runs are not kept"))));
}
