//! Boxes that are `Send` and `Sync` on native targets but not on wasm, for this crate only. `neuron-model` has the public
//! ones.

#[cfg(not(target_family = "wasm"))]
mod imp {
    /// A boxed error, which is `Send` on native targets but not on wasm. It is never `Sync`.
    pub(crate) type SendError = Box<dyn std::error::Error + Send>;

    /// A shared value of any type, which is `Send + Sync` on native targets but not on wasm.
    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any + Send + Sync>;
}

#[cfg(target_family = "wasm")]
mod imp {
    pub(crate) type SendError = Box<dyn std::error::Error>;

    pub(crate) type SharedAny = std::sync::Arc<dyn std::any::Any>;
}

pub(crate) use imp::{SendError, SharedAny};
