//! The store for payloads that are too long for the server ([`PayloadStore`]).

mod codec;
mod files;

use neuron_types::{BoxError, WasmBoxedFuture};

pub(crate) use codec::{PATIENCE, converter, with_store};
pub use files::FilePayloadStore;

/// Stores long payloads outside of the server, for example in a bucket, a table, or a directory that all workers
/// share.
///
/// A payload of more than 128 KiB is put here, and the history holds its key: the digest of its contents.
/// So writing one twice does no harm, and two runs may share one. What a run put must be readable as long
/// as its history is kept: a run whose payload is gone cannot be replayed. Payloads are encoded by the
/// client's own codec first, if it has one, so that what is encrypted stays so.
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
    /// Keeps the bytes under the key, for good once this returns. The key is made of the digits of a
    /// hexadecimal number.
    ///
    /// # Errors
    ///
    /// The store's own. A worker tries again for five minutes, at most five seconds apart, and holds the
    /// answer or the result meanwhile; a client does not. After that the call whose answer it is fails, and
    /// is made again: so it is better to wait here than to give up.
    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: &'a [u8],
    ) -> WasmBoxedFuture<'a, Result<(), BoxError>>;

    /// Returns the bytes of the key. `None` if there are none.
    ///
    /// # Errors
    ///
    /// The store's own. A worker tries again as for [`put`](Self::put), and then the server tries the task
    /// again.
    fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>>;
}
