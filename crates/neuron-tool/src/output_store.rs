//! [`OutputStore`]: where outputs lie that are too long to be shown whole.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use neuron_types::{ToolContext, ToolError, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

use crate::text;

/// Where outputs lie that are too long to be shown whole, until the model reads them in pieces.
///
/// # Contract
///
/// - A handle is short, because a model has to write it; it is found as long as the conversation
///   may ask for it.
/// - What one conversation stored no other may read: models guess handles.
/// - Pieces are counted in characters (`char`), never in bytes.
///
/// [`MemoryOutputStore`] is one.
///
/// # Example
///
/// ```
/// use std::path::PathBuf;
/// use neuron_tool::{OutputPiece, OutputStore};
/// use neuron_types::{ToolContext, ToolError, WasmBoxedFuture};
///
/// /// Keeps the last output of each session in a file.
/// struct LastOutput {
///     folder: PathBuf,
/// }
///
/// impl LastOutput {
///     /// The program chooses the ids of its sessions, so they are safe as names of files.
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
    /// Stores a text, and returns its handle.
    ///
    /// # Errors
    ///
    /// When the text could not be stored; the model then sees its beginning alone.
    fn put<'a>(
        &'a self,
        text: String,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<String, ToolError>>;

    /// Reads so many characters from an offset on: fewer at the end, none behind it. `None` when
    /// there is no such text.
    ///
    /// # Errors
    ///
    /// When the store cannot be read. That ends the run of an agent, unless the error is a
    /// [`ToolError::ModelRetry`].
    fn read<'a>(
        &'a self,
        handle: &'a str,
        offset: usize,
        characters: usize,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<Option<OutputPiece>, ToolError>>;
}

/// A piece of a stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPiece {
    /// The piece.
    pub text: String,
    /// How many characters the whole has.
    pub total: usize,
}

/// Keeps outputs in memory: for a process that holds its conversations there too.
///
/// A text is found by the [`session_id`](ToolContext::session_id) that stored it, and by a handle that
/// cannot be guessed: also conversations without a session find their own alone.
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
    max_bytes: usize,
    /// Makes handles that cannot be guessed: it hashes by a random key.
    secret: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By handle, the oldest first.
    texts: IndexMap<String, Stored>,
    bytes: usize,
    /// How many were ever stored.
    count: u64,
}

#[derive(Debug)]
struct Stored {
    text: String,
    session_id: String,
}

/// 64 MiB.
impl Default for MemoryOutputStore {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, secret: RandomState::new(), state: Mutex::default() }
    }
}

impl MemoryOutputStore {
    /// Keeps the last 64 MiB of texts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the last so many bytes of texts; the last one in any case.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    fn store(&self, text: String, session_id: String) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += text.len();
        while state.bytes > self.max_bytes {
            let Some((_, oldest)) = state.texts.shift_remove_index(0) else {
                break;
            };
            state.bytes -= oldest.text.len();
        }
        state.count += 1;
        let handle = format!("output-{}-{:016x}", state.count, self.secret.hash_one(state.count));
        state.texts.insert(handle.clone(), Stored { text, session_id });
        handle
    }

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
