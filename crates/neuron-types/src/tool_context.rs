//! What a tool call is told of the run that it belongs to.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::wasm::SharedAny;
use crate::{UsageMeter, WasmCompatSend, WasmCompatSync};

/// What a tool call is told of the run that it belongs to.
///
/// Build it with `..Default::default()`: fields may be added. `Debug` shows the names of
/// [`environment`](Self::environment), not the values.
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
    /// The working directory.
    pub cwd: PathBuf,
    /// The session; empty when there is none.
    pub session_id: String,
    /// Environment variables for the tools; may hold secrets.
    pub environment: HashMap<String, String>,
    /// Cancels the run. A tool sees a child of it, which is cancelled as well when a call beside it
    /// fails for good, or the run is dropped while the call runs.
    pub cancellation_token: CancellationToken,
    /// Where long calls report their progress.
    pub progress_reporter: Option<Arc<dyn ProgressReporter>>,
    /// The id of the tool call; empty outside one.
    pub call_id: String,
    /// The id of the run; the loop chooses one if it is empty.
    pub run_id: String,
    /// The same for every attempt of one call, and different for every other call of one conversation;
    /// empty outside a tool call. A tool that gives its effects [keys](crate::Tool::effect_key) finds that key.
    ///
    /// An agent that runs inside a tool call takes it as its [`run_id`](Self::run_id). Several
    /// agents inside one call need contexts with different ones.
    pub idempotency_key: String,
    /// The turn of the run, from zero: the same for all calls of one answer; `None` outside a run.
    pub turn: Option<usize>,
    /// Counts the tokens that the call takes itself. An agent that runs with this context counts what it
    /// takes there.
    pub usage: UsageMeter,
    /// Values of any type that layers hand to the tools below them.
    pub extensions: Extensions,
}

impl ToolContext {
    /// Returns the context for a call whose effect has a [key](crate::Tool::effect_key), with that key as its idempotency
    /// key.
    #[must_use]
    pub fn with_effect_key(&self, key: String) -> Box<Self> {
        Box::new(Self { idempotency_key: key, ..self.clone() })
    }
}

/// The current directory, no session, no environment, a fresh cancellation token, an empty meter.
impl Default for ToolContext {
    fn default() -> Self {
        Self {
            // There is none in a browser, and it may have been deleted elsewhere.
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

/// Receives the progress of long tool calls.
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
    /// Reports how far a call has come: `progress` of `total` in the tool's own unit, and what it
    /// is doing.
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>);
}

/// A map with one value for each type. Clones are cheap and share the values.
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
    /// Sets the value of its type. Clones made before do not see it.
    pub fn insert<T: Any + WasmCompatSend + WasmCompatSync>(&mut self, value: T) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of a type.
    #[must_use]
    pub fn get<T: Any + WasmCompatSend + WasmCompatSync>(&self) -> Option<&T> {
        self.0.as_ref()?.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Removes the value of a type, and says whether there was one.
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
    fn debug_shows_no_environment_value() {
        let environment = HashMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]);
        let text = format!("{:?}", ToolContext { environment, ..Default::default() });
        assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_clone_does_not_see_later_values() {
        let mut extensions = Extensions::default();
        extensions.insert(1_u8);
        let before = extensions.clone();
        extensions.insert(2_u8);
        assert_eq!((before.get::<u8>(), extensions.get::<u8>()), (Some(&1), Some(&2)));
        assert!(extensions.remove::<u8>() && !extensions.remove::<u8>());
        assert_eq!(before.get::<u8>(), Some(&1));
    }
}
