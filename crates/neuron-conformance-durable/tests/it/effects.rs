//! Tests of the check of the engine's clock.

use std::panic::catch_unwind;

use neuron_conformance_durable::{EffectKind, EffectLog, check_effects};

/// Returns `true` if [`check_effects`] passes for a log. In `log`, `a1` means that the clock returned `1` before step
/// `a`, and `!` is a model call.
fn holds(log: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let effects = EffectLog::new(folder.path().join("log"));
    for entry in log.split(' ') {
        effects.append(match entry.split_at(1) {
            ("!", _) => EffectKind::ModelCalled { step: "answer".into() },
            (what, time) => EffectKind::ClockRead { what: what.into(), time: time.into() },
        });
    }
    catch_unwind(|| check_effects(&effects, usize::MAX, 0)).is_ok()
}

#[test]
fn time_may_change_only_where_the_process_did_not_replay() {
    for (log, expected) in [
        ("a1 ! b1 ! c1 a1 b1 c1", true),
        // Killed before the step after the last one.
        ("a1 ! b1 a1 b2", true),
        // The call of the model was lost with the task, twice.
        ("a1 ! b1 a2 ! b2 a3 ! b3 c3", true),
        ("a1 ! b1 a2 a3 ! b3", true),
        // A replay reads another time.
        ("a1 ! b1 ! c1 a2 b1 c1", false),
        ("a1 ! b1 ! c1 a1 b2 c1", false),
        ("a1 ! b1 a2 ! b2 a1 b1 c1", false),
    ] {
        assert_eq!(holds(log), expected, "{log}");
    }
}
