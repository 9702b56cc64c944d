//! Bounds that mean `Send`/`Sync` on native targets and nothing on wasm32.
//!
//! Browsers run wasm on one thread, and their futures are not `Send`. Every public trait and boxed
//! future of neuron uses these names, so that one definition serves both.

use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::*;

    /// `Send` on native targets; satisfied by every type on wasm.
    pub trait WasmCompatSend: Send {}
    impl<T: Send + ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets; satisfied by every type on wasm.
    pub trait WasmCompatSync: Sync {}
    impl<T: Sync + ?Sized> WasmCompatSync for T {}

    /// A boxed future: `Send` on native targets, not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    /// A boxed stream: `Send` on native targets, not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

    /// The error box inside error enums: `Send + Sync` on native targets, neither on wasm.
    pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

    /// An error box for errors that are not `Sync`.
    pub(crate) type SendError = Box<dyn std::error::Error + Send>;

    /// A shared value of any type.
    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any + Send + Sync>;
}

#[cfg(target_family = "wasm")]
mod imp {
    use super::*;

    /// `Send` on native targets; satisfied by every type on wasm.
    pub trait WasmCompatSend {}
    impl<T: ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets; satisfied by every type on wasm.
    pub trait WasmCompatSync {}
    impl<T: ?Sized> WasmCompatSync for T {}

    /// A boxed future: `Send` on native targets, not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

    /// A boxed stream: `Send` on native targets, not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + 'a>>;

    /// The error box inside error enums: `Send + Sync` on native targets, neither on wasm.
    pub type BoxError = Box<dyn std::error::Error>;

    /// An error box for errors that are not `Sync`.
    pub(crate) type SendError = Box<dyn std::error::Error>;

    /// A shared value of any type.
    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any>;
}

pub use imp::{BoxError, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend, WasmCompatSync};
pub(crate) use imp::{SendError, SharedAny};
