//! Traits and types that require `Send` and `Sync` on native targets but not on wasm.
//!
//! Futures of JavaScript promises are not `Send`. The public traits and boxed futures of neuron use the bounds of this
//! module, so that one definition works on native targets and on wasm.

use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::*;

    /// `Send` on native targets. On wasm, every type implements this trait.
    pub trait WasmCompatSend: Send {}
    impl<T: Send + ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets. On wasm, every type implements this trait.
    pub trait WasmCompatSync: Sync {}
    impl<T: Sync + ?Sized> WasmCompatSync for T {}

    /// A boxed future, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    /// A boxed stream, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

    /// A boxed error, which is `Send + Sync` on native targets but not on wasm.
    pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
}

#[cfg(target_family = "wasm")]
mod imp {
    use super::*;

    /// `Send` on native targets. On wasm, every type implements this trait.
    pub trait WasmCompatSend {}
    impl<T: ?Sized> WasmCompatSend for T {}

    /// `Sync` on native targets. On wasm, every type implements this trait.
    pub trait WasmCompatSync {}
    impl<T: ?Sized> WasmCompatSync for T {}

    /// A boxed future, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

    /// A boxed stream, which is `Send` on native targets but not on wasm.
    pub type WasmBoxedStream<'a, T> = Pin<Box<dyn Stream<Item = T> + 'a>>;

    /// A boxed error, which is `Send + Sync` on native targets but not on wasm.
    pub type BoxError = Box<dyn std::error::Error>;
}

pub use imp::{BoxError, WasmBoxedFuture, WasmBoxedStream, WasmCompatSend, WasmCompatSync};
