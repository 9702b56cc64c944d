//! Stores sessions in files, one file for each session ([`FileSessionStorage`]).

mod batches;
mod blocking;
mod checksum;
mod directory;
mod document;
mod files;
mod locks;
mod outline;
mod path_error;
mod private;

use std::path::{Path, PathBuf};

use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage, check_session_id,
};
use uuid::Uuid;

use blocking::{Caller, blocking};
use directory::Directory;
use files::LockedFile;
use locks::Lock;

/// Stores each session as a JSON file, `{directory}/{id}.json`.
///
/// [`append`](VersionedSessionStorage::append) writes the new messages to the end of the file and syncs the file once.
/// Its cost does not depend on the length of the session. Every other write replaces the whole file. The new content is
/// written to a second file, synced to the disk, and renamed to the session's file. If the process or the machine stops
/// during a write, the file contains either the old or the new session.
///
/// Several processes may share a directory. Writers use locks of the operating system, so the revision checks of
/// [`update`](VersionedSessionStorage::update) and [`append`](VersionedSessionStorage::append) also work between
/// processes. If the file system has no such locks, every write returns an error. The hidden folder `.neuron` beside
/// the sessions contains the locks and unfinished files.
///
/// On Unix, only the owner can read new files and directories (modes 0600 and 0700). Existing ones keep their
/// permissions.
///
/// An append replaces the whole file in these cases:
///
/// - An interrupted append left an incomplete end.
/// - The file has an earlier version.
/// - The file is a link, or has several hard links. On other systems than Unix hard links cannot be counted, so every
///   append replaces the file.
/// - Outdated states fill more than 64 KiB and more than half of the file.
///
/// # Damaged files
///
/// Every file contains checksums. A changed bit, a missing part, or additional bytes at the end are reported as
/// [`StorageError::Corrupt`] with the name of the file. An edit by hand is reported in the same way. To keep an edit,
/// set `"version"` to 1 and remove both checksums and everything after the first JSON object.
///
/// Files of versions 1 and 2, which earlier releases wrote, can be read. Version 1 has no checksums. The next write
/// converts the file to version 3.
///
/// The incomplete end of an interrupted append is ignored. An append reads only the beginning and the end of the file,
/// so damage between them is reported by the next load.
///
/// A file that is not a session, or contains a session with another id, is reported as [`StorageError::Corrupt`]. A
/// file of a newer version is reported as [`StorageError::UnsupportedVersion`]. Neither file is overwritten, because
/// every write first reads the file that it replaces. [`delete`](SessionStorage::delete) deletes a damaged session, but
/// does not delete a session of a newer version.
///
/// [`list`](SessionStorage::list) reads only the beginning and the end of each file. An unreadable session is listed
/// with its [damage](SessionSummary::damage). Files whose names are not those of sessions are ignored. A session whose
/// JSON is nested more than 256 levels deep cannot be stored.
///
/// # Blocking work
///
/// File operations run on tokio's blocking threads if there is a tokio runtime, and otherwise on the thread that polls
/// the future. Only the JSON of a whole session is serialised on the polling thread, because the session is borrowed.
///
/// A blocking thread never waits for the lock of another process. A process that is stopped during a write prevents
/// other writes to its session, and to the few sessions that share the lock. It does not prevent reads. A write that
/// waits for the lock can be dropped, and its runtime can be shut down.
///
/// # Cancel safety
///
/// A write whose future is dropped happens completely or not at all. It never happens after a write that the same
/// caller started later.
///
/// # Example
///
/// ```
/// use neuron_runtime::{FileSessionStorage, Session, SessionStorage};
/// use neuron_types::Message;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("neuron-example-{}", std::process::id()));
/// let storage = FileSessionStorage::new(directory.clone());
/// let mut session = Session::new("chat-42", std::env::current_dir()?);
/// session.messages.push(Message::user("Hello"));
/// storage.save(&session).await?;
/// assert!(directory.join("chat-42.json").exists());
///
/// let loaded = storage.load("chat-42").await?;
/// assert_eq!(loaded, session);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok(())
/// # }
/// ```
///
/// # Example: continue in another process
///
/// ```
/// use neuron_loop::{Agent, SessionHandle};
/// use neuron_runtime::{FileSessionStorage, SessionStorage};
/// # use neuron_testing::ScriptedProvider;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("neuron-example-2-{}", std::process::id()));
/// # let (provider, another) = (ScriptedProvider::new(["Hello."]), ScriptedProvider::new(["Yes."]));
/// let storage = FileSessionStorage::new(directory.clone());
///
/// // The run stores the conversation while it happens.
/// let agent = Agent::builder(provider).build();
/// let session = SessionHandle::new(&storage, "session-123");
/// agent.run(&mut session.load().await?, "Hello!").store(&session).await?;
///
/// // Later, in a new process, the model receives the whole conversation. If another process changes the session
/// // after `load`, the run ends with `StorageError::Conflict`.
/// # let provider = another.clone();
/// let agent = Agent::builder(provider).build();
/// let session = SessionHandle::new(&storage, "session-123");
/// let mut conversation = session.load().await?;
/// agent.run(&mut conversation, "Continue where we left off.").store(&session).await?;
/// # assert_eq!(another.requests()[0].messages.len(), 3);
/// assert_eq!(storage.load("session-123").await?.messages, conversation.messages());
/// # std::fs::remove_dir_all(directory)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FileSessionStorage {
    directory: Directory,
}

impl FileSessionStorage {
    /// Creates a storage for the sessions in `directory`. The directory is not read yet. It is created with the first
    /// session.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory: Directory::new(directory) }
    }

    /// Returns the directory of the sessions.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs work that reads the directory on a blocking thread, if there is a tokio runtime.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let directory = self.directory.clone();
        blocking(move |_| work(&directory)).await
    }

    /// Takes the session's lock with `open`, and then runs `work` on a blocking thread. `work` may write the session's
    /// file.
    async fn write<T: Send + 'static>(
        &self,
        id: &str,
        open: fn(&Directory, &str) -> Result<Lock, StorageError>,
        work: impl FnOnce(&LockedFile, &Caller) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let mut turn = self.directory.turn(id).await;
        let file = loop {
            let (directory, id) = (self.directory.clone(), id.to_owned());
            let opening = blocking(move |_| Ok((open(&directory, &id)?, directory, id, turn)));
            let (lock, directory, id, taken) = opening.await?;
            let (lock, taken) = lock.wait(taken).await?;
            // A lock whose file was deleted during the wait is not held. The next attempt opens the new file.
            if lock.is_held() {
                break LockedFile::new(id, directory, lock, taken);
            }
            turn = taken;
        };
        blocking(move |caller| {
            caller.check()?;
            work(&file, caller)
        })
        .await
    }
}

/// Returns a new random revision, which is unique across processes.
fn new_revision() -> SessionRevision {
    SessionRevision::new(Uuid::new_v4().simple().to_string())
}

impl SessionStorage for FileSessionStorage {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let json = document::write(session, &new_revision())?;
        self.write(&session.id, Directory::lock_or_make, move |file, caller| {
            // A session that cannot be read is not overwritten, because `load` returns its error.
            file.load()?;
            file.replace(&json, caller)
        })
        .await
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        Ok(self.load_versioned(id).await?.0)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        self.read(Directory::list).await
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        check_session_id(id)?;
        self.write(id, Directory::lock, |file, _| file.remove()).await
    }
}

impl VersionedSessionStorage for FileSessionStorage {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let revision = new_revision();
        let json = document::write(session, &revision)?;
        let id = session.id.clone();
        self.write(&session.id, Directory::lock_or_make, move |file, caller| {
            match file.load()? {
                Some(_) => Err(StorageError::Conflict { id }),
                None => file.replace(&json, caller),
            }
        })
        .await?;
        Ok(revision)
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        check_session_id(id)?;
        let id = id.to_owned();
        self.read(move |directory| directory.load(&id)?.ok_or(StorageError::NotFound(id))).await
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let id = id.to_owned();
        self.read(move |directory| {
            let outline = directory.outline(&id)?;
            Ok(outline.ok_or(StorageError::NotFound(id))?.revision)
        })
        .await
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let revision = new_revision();
        let json = document::write(session, &revision)?;
        let expected = expected.clone();
        self.write(&session.id, Directory::lock, move |file, caller| {
            file.load_expected(&expected)?;
            file.replace(&json, caller)
        })
        .await?;
        Ok(revision)
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let revision = new_revision();
        let (expected, given) = (expected.clone(), revision.clone());
        // Copied, because the blocking work may outlive this future.
        let (messages, state) = (messages.to_vec(), state.cloned());
        self.write(id, Directory::lock, move |file, caller| {
            if file.append(&messages, state.as_ref(), &expected, &given, caller)? {
                return Ok(());
            }
            // No batch can be appended to this file, so it is rewritten.
            let mut session = file.load_expected(&expected)?;
            session.messages.extend(messages);
            if let Some(state) = state {
                session.state = state;
            }
            session.touch();
            file.replace(&document::write(&session, &given)?, caller)
        })
        .await?;
        Ok(revision)
    }
}
