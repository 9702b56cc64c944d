//! The context of a tool call.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::wasm::SharedAny;
use crate::{UsageMeter, WasmCompatSend, WasmCompatSync};

/// The context of a tool call or of a run.
///
/// Create the struct with `..Default::default()`, because later versions may add fields. `Debug` shows only the names
/// of the [`environment`](Self::environment) variables, because their values may be secrets.
///
/// # Example
///
/// ```
/// use neuron_types::ToolContext;
///
/// let ctx = ToolContext { session_id: "chat-42".into(), ..Default::default() };
/// assert!(!ctx.cancellation_token.is_cancelled());
/// ```
#[derive(Clone)]
pub struct ToolContext {
    /// The working directory of tools.
    pub cwd: PathBuf,
    /// Id of the session. Empty if the run has no session.
    pub session_id: String,
    /// Environment variables for tools, which may contain secrets.
    pub environment: HashMap<String, String>,
    /// Token with which the caller cancels the run.
    ///
    /// Each tool call receives a child token, which is cancelled together with the run. The child token is also
    /// cancelled if a parallel call fails in a way that ends the run, or if the run's future is dropped during the
    /// call.
    pub cancellation_token: CancellationToken,
    /// Receives progress reports of long tool calls. `None` if progress is not reported.
    pub progress_reporter: Option<Arc<dyn ProgressReporter>>,
    /// Id of the tool call. Empty outside of a tool call.
    pub call_id: String,
    /// Id of the run. If empty, the loop generates an id.
    pub run_id: String,
    /// Idempotency key of the tool call. Empty outside of a tool call.
    ///
    /// All attempts of a call have the same key. Different calls in a conversation have different keys. If the tool
    /// returns an [effect key](crate::Tool::effect_key), the effect key is used instead.
    ///
    /// An agent inside a tool call uses the key as its [`run_id`](Self::run_id). If one call runs several agents, give
    /// their contexts different keys.
    pub idempotency_key: String,
    /// Number of the turn, from zero. All tool calls of one response have the same number. `None` outside of a run.
    pub turn: Option<usize>,
    /// Counts the tokens that the tool call uses. An agent that runs with this context adds its usage automatically.
    pub usage: UsageMeter,
    /// Values that middleware and callers pass to tools, for example a [`Budget`](crate::Budget). The type of a value
    /// is its key.
    pub extensions: Extensions,
}

impl ToolContext {
    /// Returns a copy of the context whose idempotency key is the [effect key](crate::Tool::effect_key) `key`.
    #[must_use]
    pub fn with_effect_key(&self, key: String) -> Box<Self> {
        Box::new(Self { idempotency_key: key, ..self.clone() })
    }
}

/// Returns a context with the current directory, a new cancellation token and a usage meter at zero. All other fields
/// are empty.
impl Default for ToolContext {
    fn default() -> Self {
        Self {
            // A browser has no current directory. On other platforms the current directory may have been deleted.
            cwd: std::env::current_dir().unwrap_or_default(),
            session_id: String::new(),
            environment: HashMap::new(),
            cancellation_token: CancellationToken::new(),
            progress_reporter: None,
            call_id: String::new(),
            run_id: String::new(),
            idempotency_key: String::new(),
            turn: None,
            usage: UsageMeter::default(),
            extensions: Extensions::default(),
        }
    }
}

impl<'a> From<&'a ToolContext> for Cow<'a, ToolContext> {
    fn from(ctx: &'a ToolContext) -> Self {
        Cow::Borrowed(ctx)
    }
}

impl From<ToolContext> for Cow<'_, ToolContext> {
    fn from(ctx: ToolContext) -> Self {
        Cow::Owned(ctx)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.environment.keys().collect();
        names.sort();
        f.debug_struct("ToolContext")
            .field("cwd", &self.cwd)
            .field("session_id", &self.session_id)
            .field("environment", &names)
            .field("cancelled", &self.cancellation_token.is_cancelled())
            .field("progress_reporter", &self.progress_reporter.is_some())
            .field("call_id", &self.call_id)
            .field("run_id", &self.run_id)
            .field("idempotency_key", &self.idempotency_key)
            .field("turn", &self.turn)
            .field("usage", &self.usage)
            .field("extensions", &self.extensions)
            .finish()
    }
}

/// Receives progress reports of long tool calls.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use neuron_types::{ProgressReporter, ToolContext};
///
/// struct Print;
///
/// impl ProgressReporter for Print {
///     fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
///         println!("{progress} of {total:?}: {}", message.unwrap_or_default());
///     }
/// }
///
/// let ctx = ToolContext { progress_reporter: Some(Arc::new(Print)), ..Default::default() };
/// if let Some(reporter) = &ctx.progress_reporter {
///     reporter.report(3.0, Some(10.0), Some("reading files"));
/// }
/// ```
pub trait ProgressReporter: WasmCompatSend + WasmCompatSync {
    /// Reports the progress of a call.
    ///
    /// `progress` is the completed part of `total`. The tool chooses the unit. `total` is `None` if it is unknown.
    /// `message` describes the current work.
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>);
}

/// A map with at most one value of each type. Clones are cheap and share the values.
///
/// # Example
///
/// ```
/// use neuron_types::Extensions;
///
/// #[derive(Debug, PartialEq)]
/// struct Tenant(u32);
///
/// let mut extensions = Extensions::default();
/// extensions.insert(Tenant(7));
/// assert_eq!(extensions.get::<Tenant>(), Some(&Tenant(7)));
/// assert_eq!(extensions.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<HashMap<TypeId, SharedAny>>>);

impl Extensions {
    /// Inserts a value. An existing value of the same type is replaced. Clones that were made before do not change.
    pub fn insert<T: Any + WasmCompatSend + WasmCompatSync>(&mut self, value: T) {
        // Copy on write, because earlier clones share the map and must not change.
        Arc::make_mut(self.0.get_or_insert_default()).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of type `T`. Returns `None` if there is no such value.
    #[must_use]
    pub fn get<T: Any + WasmCompatSend + WasmCompatSync>(&self) -> Option<&T> {
        self.0.as_ref()?.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Removes the value of type `T`. Returns `true` if there was such a value. Existing clones of these extensions
    /// keep the value.
    pub fn remove<T: Any + WasmCompatSend + WasmCompatSync>(&mut self) -> bool {
        match &mut self.0 {
            Some(values) => Arc::make_mut(values).remove(&TypeId::of::<T>()).is_some(),
            None => false,
        }
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |values| values.len());
        f.debug_struct("Extensions").field("len", &count).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_omits_environment_values() {
        let environment = HashMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]);
        let text = format!("{:?}", ToolContext { environment, ..Default::default() });
        assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn clone_is_independent_of_later_changes() {
        let mut extensions = Extensions::default();
        extensions.insert(1_u8);
        let before = extensions.clone();
        extensions.insert(2_u8);
        assert_eq!((before.get::<u8>(), extensions.get::<u8>()), (Some(&1), Some(&2)));
        assert!(extensions.remove::<u8>() && !extensions.remove::<u8>());
        assert_eq!(before.get::<u8>(), Some(&1));
    }
}
