//! Stores for payloads that are too long for the server ([`PayloadStore`]).

mod codec;
mod files;

use neuron_types::{BoxError, WasmBoxedFuture};

pub(crate) use codec::{PATIENCE, converter, with_store};
pub use files::FilePayloadStore;

/// A store for long payloads outside of the server, for example a bucket, a table, or a directory that all workers
/// share.
///
/// A payload of more than 128 KiB is put into the store, and the history contains only its key. The key is a digest of
/// the payload, so several runs may share a stored payload. Storing a payload twice is harmless.
///
/// Keep a payload for as long as the history of its run. A run whose payload is lost cannot be replayed. If the client
/// has a codec of its own, payloads are encoded by that codec first, so encrypted payloads are stored encrypted.
///
/// # Example
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// use neuron_durable_temporal::PayloadStore;
/// use neuron_types::{BoxError, WasmBoxedFuture};
///
/// #[derive(Default)]
/// struct InMemory(Mutex<HashMap<String, Vec<u8>>>);
///
/// impl PayloadStore for InMemory {
///     fn put<'a>(&'a self, key: &'a str, bytes: &'a [u8]) -> WasmBoxedFuture<'a, Result<(), BoxError>> {
///         Box::pin(async move {
///             let mut stored = self.0.lock().map_err(|_| "poisoned")?;
///             stored.insert(key.to_owned(), bytes.to_vec());
///             Ok(())
///         })
///     }
///
///     fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>> {
///         Box::pin(async move {
///             let stored = self.0.lock().map_err(|_| "poisoned")?;
///             Ok(stored.get(key).cloned())
///         })
///     }
/// }
/// ```
pub trait PayloadStore: Send + Sync {
    /// Stores the bytes under the key, which consists of hexadecimal digits. The bytes must be durable when this method
    /// returns.
    ///
    /// # Errors
    ///
    /// Any error of the store. If the store is only busy, wait instead of returning an error.
    ///
    /// After an error, a worker calls this method again for up to five minutes, with pauses of up to five seconds.
    /// Meanwhile the model's response or the tool's result stays in its memory. If the worker gives up, this result is
    /// lost:
    ///
    /// - A model call is made again.
    /// - A tool call is made again if it may run twice.
    /// - For any other tool call, [`DurableOptions::unknown_outcome`](crate::DurableOptions::unknown_outcome) decides
    ///   the result.
    ///
    /// The activity sends no heartbeats meanwhile. The server therefore gives up an activity after its [heartbeat
    /// timeout](crate::DurableOptions::lease), with the same effects. Local model calls have no such
    /// timeout. A client does not retry.
    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: &'a [u8],
    ) -> WasmBoxedFuture<'a, Result<(), BoxError>>;

    /// Returns the bytes that are stored under the key. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// Any error of the store. A worker then calls this method again for up to five minutes, with pauses of up to five
    /// seconds. After that, the server retries the workflow task or the activity. A tool call that must not run twice
    /// is not retried, and [`DurableOptions::unknown_outcome`](crate::DurableOptions::unknown_outcome) decides its
    /// result. A client does not retry.
    fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>>;
}
