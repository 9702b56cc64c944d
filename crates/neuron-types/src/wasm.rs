//! Bounds that are `Send` and `Sync` on native targets and empty on wasm32.
//!
//! Wasm in browsers is single-threaded, and its futures are not `Send`. Every public trait and boxed future of neuron
//! uses these names, so that one definition works on both.

use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::*;

    /// `Send` on native targets. Implemented by every type on wasm.
    pub trait WasmCompatSend: Send {}
    impl<T: Send + ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets. Implemented by every type on wasm.
    pub trait WasmCompatSync: Sync {}
    impl<T: Sync + ?Sized> WasmCompatSync for T {}

    /// A boxed future, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    /// A boxed stream, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

    /// A boxed error, which is `Send + Sync` on native targets but not on wasm.
    pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

    /// A boxed error without `Sync`.
    pub(crate) type SendError = Box<dyn std::error::Error + Send>;

    /// A shared value of any type.
    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any + Send + Sync>;
}

#[cfg(target_family = "wasm")]
mod imp {
    use super::*;

    /// `Send` on native targets. Implemented by every type on wasm.
    pub trait WasmCompatSend {}
    impl<T: ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets. Implemented by every type on wasm.
    pub trait WasmCompatSync {}
    impl<T: ?Sized> WasmCompatSync for T {}

    /// A boxed future, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

    /// A boxed stream, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + 'a>>;

    /// A boxed error, which is `Send + Sync` on native targets but not on wasm.
    pub type BoxError = Box<dyn std::error::Error>;

    /// A boxed error without `Sync`.
    pub(crate) type SendError = Box<dyn std::error::Error>;

    /// A shared value of any type.
    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any>;
}

pub use imp::{BoxError, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend, WasmCompatSync};
pub(crate) use imp::{SendError, SharedAny};
