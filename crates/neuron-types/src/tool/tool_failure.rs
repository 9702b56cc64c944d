//! The wrapper that makes any error of a tool the source of a [`ToolError`].

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::wasm::SendError;
use crate::{ToolError, WasmCompatSend};

/// A wrapper around an error of a tool's own type, used as the source of [`ToolError::ExecutionFailed`].
///
/// The wrapper is `Sync`, as required for the source of a [`ToolError`]. A [`Tool::Error`](crate::Tool::Error) need not
/// be `Sync`. Therefore the wrapper contains the texts of the error and of its sources, and the original error in a
/// mutex. [`downcast`](Self::downcast) returns the original error.
///
/// # Example
///
/// ```
/// use neuron_types::{ToolError, ToolFailure};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the disk is full")]
/// struct DiskFull;
///
/// let error = ToolFailure::tool_error(DiskFull);
/// assert_eq!(error.to_string(), "execution failed: the disk is full");
/// let ToolError::ExecutionFailed(source) = error else { panic!("it ran and failed") };
/// let failure = source.downcast::<ToolFailure>().expect("the wrapper");
/// assert!(failure.downcast::<DiskFull>().is_some());
/// ```
pub struct ToolFailure {
    /// The `Display` text of the original error.
    text: String,
    /// The `Debug` text of the original error.
    debug: String,
    /// The copied texts of all sources of the original error. `None` if the original error has no source.
    source: Option<Box<Rendered>>,
    /// The original error. The mutex makes this type `Sync`, even if the original error is not `Sync`.
    original: Mutex<SendError>,
}

impl ToolFailure {
    /// Converts any error to a [`ToolError`].
    ///
    /// - A `ToolError` is returned unchanged.
    /// - An I/O or JSON error, which is `Sync`, becomes the source of a [`ToolError::ExecutionFailed`].
    /// - Any other error is wrapped in a `ToolFailure`, which becomes the source of a [`ToolError::ExecutionFailed`].
    pub fn tool_error<E: Error + WasmCompatSend + 'static>(error: E) -> ToolError {
        // Do not wrap a `ToolError`, because the loop must recognise its variant.
        let error = match take_as::<E, ToolError>(error) {
            Ok(error) => return error,
            Err(error) => error,
        };
        let error = match take_as::<E, std::io::Error>(error) {
            Ok(error) => return ToolError::ExecutionFailed(Box::new(error)),
            Err(error) => error,
        };
        let error = match take_as::<E, serde_json::Error>(error) {
            Ok(error) => return ToolError::ExecutionFailed(Box::new(error)),
            Err(error) => error,
        };
        ToolError::ExecutionFailed(Box::new(Self {
            text: error.to_string(),
            debug: format!("{error:?}"),
            source: error.source().map(Rendered::of),
            original: Mutex::new(Box::new(error)),
        }))
    }

    /// Returns the original error. Returns `None` if the error is not an `E`.
    #[must_use]
    pub fn downcast<E: Error + 'static>(self) -> Option<E> {
        let original = self.original.into_inner().unwrap_or_else(PoisonError::into_inner);
        original.downcast::<E>().ok().map(|error| *error)
    }

    /// Calls the closure `look` with the original error and returns the closure's result.
    pub fn with_original<R>(&self, look: impl FnOnce(&(dyn Error + 'static)) -> R) -> R {
        look(&**self.original.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.debug)
    }
}

impl Error for ToolFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The copied texts of an error and of its sources. The copy is `Sync`, although the error itself need not be.
#[derive(Debug)]
struct Rendered {
    text: String,
    source: Option<Box<Rendered>>,
}

impl Rendered {
    /// Copies the texts of an error and of its sources.
    fn of(error: &(dyn Error + 'static)) -> Box<Self> {
        Box::new(Self { text: error.to_string(), source: error.source().map(Self::of) })
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Rendered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Converts `value` to the type `T`. If `value` has another type, returns `value` itself as the error.
fn take_as<V: 'static, T: 'static>(value: V) -> Result<T, V> {
    let boxed: Box<dyn Any> = Box::new(value);
    match boxed.downcast::<T>() {
        Ok(value) => Ok(*value),
        Err(boxed) => match boxed.downcast::<V>() {
            Ok(value) => Err(*value),
            Err(_) => unreachable!("the box was made from a value of this type"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct NotSync {
        #[source]
        inner: Inner,
        cell: std::cell::Cell<u8>,
    }

    #[test]
    fn tool_error_is_returned_unchanged() {
        let error = ToolFailure::tool_error(ToolError::ModelRetry("again".into()));
        assert!(matches!(error, ToolError::ModelRetry(hint) if hint == "again"));
    }

    #[test]
    fn io_and_json_errors_become_the_source_directly() {
        let ToolError::ExecutionFailed(source) =
            ToolFailure::tool_error(std::io::Error::other("disk"))
        else {
            panic!("execution failed")
        };
        assert!(source.is::<std::io::Error>());
        let json = serde_json::from_str::<u8>("x").unwrap_err();
        let ToolError::ExecutionFailed(source) = ToolFailure::tool_error(json) else {
            panic!("execution failed")
        };
        assert!(source.is::<serde_json::Error>());
    }

    #[test]
    fn error_without_sync_keeps_its_chain_and_can_be_recovered() {
        let error = NotSync { inner: Inner, cell: 7.into() };
        let ToolError::ExecutionFailed(source) = ToolFailure::tool_error(error) else {
            panic!("execution failed")
        };
        assert_eq!(source.to_string(), "outer");
        assert_eq!(source.source().unwrap().to_string(), "inner");
        let failure = source.downcast::<ToolFailure>().unwrap();
        assert!(failure.with_original(|original| original.source().unwrap().is::<Inner>()));
        let original = failure.downcast::<NotSync>().unwrap();
        assert_eq!((original.cell.get(), original.inner.to_string()), (7, "inner".into()));
    }
}
