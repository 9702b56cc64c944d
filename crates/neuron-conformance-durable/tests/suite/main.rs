//! The durable suite: engines that hold pass, and one after the other that is broken in one way is caught
//! by the part that looks at it.

mod caught;
mod killed;
mod reference;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_conformance_durable::{LocalEngine, Verdict, check_durable_engine};

use crate::reference::Reference;

/// A directory that goes with its value.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("neuron-durable-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All parts apply to it: none is passed in silence.
#[tokio::test]
async fn a_journal_that_holds() {
    let directory = Directory::new("holds");
    let engine = Reference::new(&directory.0);
    let suite = check_durable_engine(&engine);
    // A user's runtime may move it between threads.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    let report = is_send(suite).await;
    assert_eq!(report.verdicts.len(), 16);
    assert!(report.not_applicable().is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_on_several_threads() {
    let directory = Directory::new("threads");
    let report = check_durable_engine(&Reference::new(&directory.0)).await;
    assert!(report.not_applicable().is_empty(), "{report}");
}

/// What does not apply to a context without a journal is said.
#[tokio::test]
async fn no_journal() {
    let report = check_durable_engine(&LocalEngine::default()).await;
    let expected = [
        "replaying",
        "clock",
        "changed_code",
        "record_limit",
        "growth",
        "continuing",
        "cancelling",
    ];
    assert_eq!(report.not_applicable(), expected, "{report}");
    let text = report.to_string();
    assert!(text.contains("growth: NOT TRIED: the engine does not say"), "{text}");
    assert!(text.contains("limits: holds\n"), "{text}");
    assert!(report.verdicts.contains(&("replaying", Verdict::NotApplicable("runs are not kept"))));
}
