//! Stores of outputs that are too long for the model's context.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use neuron_types::{ToolContext, ToolError, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

use crate::text;

/// A store of outputs that are too long for the model's context. The model reads an output in pieces.
///
/// [`MemoryOutputStore`] implements this trait.
///
/// # Contract
///
/// - A handle must be short, because the model has to write it. It must stay valid as long as the conversation may use
///   it.
/// - A conversation must not be able to read the outputs of another conversation. Models may guess handles.
/// - Equal texts of a session should have the same handle, because the handle is in the result that the model receives.
///   If each call has another handle, no two results are equal, and a hook that compares results finds no repetition.
/// - Offsets and lengths are in characters (`char`), never in bytes.
///
/// # Example
///
/// ```
/// use std::path::PathBuf;
/// use neuron_tool::{OutputPiece, OutputStore};
/// use neuron_types::{ToolContext, ToolError, WasmBoxedFuture};
///
/// /// Stores the last output of each session in a file.
/// struct LastOutput {
///     folder: PathBuf,
/// }
///
/// impl LastOutput {
///     /// The program chooses the session ids, so they are safe file names.
///     fn file(&self, ctx: &ToolContext) -> PathBuf {
///         self.folder.join(format!("{}.txt", ctx.session_id))
///     }
/// }
///
/// impl OutputStore for LastOutput {
///     fn put<'a>(
///         &'a self,
///         text: String,
///         ctx: &'a ToolContext,
///     ) -> WasmBoxedFuture<'a, Result<String, ToolError>> {
///         Box::pin(async move {
///             std::fs::write(self.file(ctx), text)
///                 .map_err(|error| ToolError::ExecutionFailed(error.into()))?;
///             Ok("last".to_owned())
///         })
///     }
///
///     fn read<'a>(
///         &'a self,
///         handle: &'a str,
///         offset: usize,
///         characters: usize,
///         ctx: &'a ToolContext,
///     ) -> WasmBoxedFuture<'a, Result<Option<OutputPiece>, ToolError>> {
///         Box::pin(async move {
///             let Ok(whole) = std::fs::read_to_string(self.file(ctx)) else {
///                 return Ok(None);
///             };
///             Ok((handle == "last").then(|| OutputPiece {
///                 text: whole.chars().skip(offset).take(characters).collect(),
///                 total: whole.chars().count(),
///             }))
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let store = LastOutput { folder: std::env::temp_dir() };
/// let session_id = format!("output-store-example-{}", std::process::id());
/// let ctx = ToolContext { session_id, ..ToolContext::default() };
/// let handle = store.put("äöü".into(), &ctx).await?;
/// let piece = store.read(&handle, 1, 1, &ctx).await?;
/// assert_eq!(piece, Some(OutputPiece { text: "ö".into(), total: 3 }));
/// # std::fs::remove_file(store.file(&ctx)).ok();
/// # Ok(())
/// # }
/// ```
pub trait OutputStore: WasmCompatSend + WasmCompatSync {
    /// Stores a text and returns its handle.
    ///
    /// # Errors
    ///
    /// Returns an error if the text could not be stored. The model then receives only the beginning of the output.
    fn put<'a>(
        &'a self,
        text: String,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<String, ToolError>>;

    /// Reads up to `characters` characters of a stored text, starting at `offset`.
    ///
    /// At the end of the text, the returned piece may be shorter. Beyond the end, it is empty. Returns `None` if the
    /// handle is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. The error ends the agent's run unless it is a
    /// [`ToolError::ModelRetry`].
    fn read<'a>(
        &'a self,
        handle: &'a str,
        offset: usize,
        characters: usize,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<Option<OutputPiece>, ToolError>>;
}

/// A part of a stored output. Returned by [`OutputStore::read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPiece {
    /// The text of this part.
    pub text: String,
    /// Number of characters of the whole output.
    pub total: usize,
}

/// An [`OutputStore`] in memory, for a process that also keeps its conversations in memory.
///
/// A text can be read only with its handle, and only in the same session ([`session_id`](ToolContext::session_id)) in
/// which it was stored. Handles cannot be guessed, so conversations without a session cannot read each other's texts
/// either. Equal texts of a session have the same handle, so that equal outputs stay equal.
///
/// # Example
///
/// ```
/// use neuron_tool::{MemoryOutputStore, OutputStore};
/// use neuron_types::{ToolContext, ToolError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let (store, ctx) = (MemoryOutputStore::new(), ToolContext::default());
/// let handle = store.put("äöü".into(), &ctx).await?;
/// let piece = store.read(&handle, 1, 10, &ctx).await?;
/// assert_eq!(piece.map(|piece| (piece.text, piece.total)), Some(("öü".into(), 3)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryOutputStore {
    /// Maximum size of all texts together, in bytes.
    max_bytes: usize,
    /// Hashes sessions and texts with a random key, which makes handles unguessable.
    secret: RandomState,
    state: Mutex<State>,
}

/// The stored texts of a [`MemoryOutputStore`], with their total size.
#[derive(Debug, Default)]
struct State {
    /// The texts by handle, oldest first.
    texts: IndexMap<String, Stored>,
    /// Size of all texts together, in bytes.
    bytes: usize,
}

/// A stored text and the session that stored it.
#[derive(Debug)]
struct Stored {
    text: String,
    /// Id of the session that stored the text. Empty for a conversation without a session.
    session_id: String,
}

/// Returns a store with a limit of 64 MiB.
impl Default for MemoryOutputStore {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, secret: RandomState::new(), state: Mutex::default() }
    }
}

impl MemoryOutputStore {
    /// Creates a store with a limit of 64 MiB for all texts together.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum size of all texts together, in bytes. The oldest texts are removed first. The newest text is
    /// kept even if it exceeds the maximum.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Stores a text and returns its handle. Removes the oldest texts if the limit is exceeded.
    fn store(&self, text: String, session_id: String) -> String {
        let handle = format!("output-{:016x}", self.secret.hash_one((&session_id, &text)));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A text that is stored again becomes the newest text.
        if let Some(same) = state.texts.shift_remove(&handle) {
            state.bytes -= same.text.len();
        }
        state.bytes += text.len();
        // Evict before the insertion, so that the new text is always kept.
        while state.bytes > self.max_bytes {
            let Some((_, oldest)) = state.texts.shift_remove_index(0) else {
                break;
            };
            state.bytes -= oldest.text.len();
        }
        state.texts.insert(handle.clone(), Stored { text, session_id });
        handle
    }

    /// Returns up to `characters` characters of a text, starting at the character `offset`. Returns `None` if no text
    /// has the handle, or if another session stored it.
    fn piece(
        &self,
        handle: &str,
        offset: usize,
        characters: usize,
        session_id: &str,
    ) -> Option<OutputPiece> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = state.texts.get(handle).filter(|stored| stored.session_id == session_id)?;
        let before = text::first(&stored.text, offset).len();
        let rest = stored.text.get(before..).unwrap_or_default();
        Some(OutputPiece {
            text: text::first(rest, characters).to_owned(),
            total: stored.text.chars().count(),
        })
    }
}

impl OutputStore for MemoryOutputStore {
    fn put<'a>(
        &'a self,
        text: String,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<String, ToolError>> {
        Box::pin(async move { Ok(self.store(text, ctx.session_id.clone())) })
    }

    fn read<'a>(
        &'a self,
        handle: &'a str,
        offset: usize,
        characters: usize,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<Option<OutputPiece>, ToolError>> {
        Box::pin(async move { Ok(self.piece(handle, offset, characters, &ctx.session_id)) })
    }
}
