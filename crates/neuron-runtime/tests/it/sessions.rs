//! Tests of the session storages. The conformance suite runs for every storage, and further tests only for files.

mod batches;
mod broken_files;
mod directories;
mod files;
mod in_memory;
mod killed;
mod locks;
mod processes;
mod temporary;
mod trials;

/// Defines a test for each part of the conformance suite of session storages. Each test creates a new storage.
macro_rules! conforms {
    ($new:expr) => {
        use $crate::sessions::conforms;
        neuron_conformance::session_parts!(conforms $new;);

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn load() {
            let (storage, _guard) = $new;
            let load = neuron_conformance::session::Load::from_env();
            let tally = neuron_conformance::session::load(&storage, load).await;
            println!("{tally:?}");
            assert!(tally.writes > 0);
        }
    };
    ($new:expr; $($part:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $part() {
            let (storage, _guard) = $new;
            neuron_conformance::session::$part(&storage).await;
        }
    )*};
}

pub(crate) use conforms;
