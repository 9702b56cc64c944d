//! Sessions in files, one each.

mod batches;
mod blocking;
mod checksum;
mod directory;
mod document;
mod files;
mod locks;
mod outline;
mod path_error;

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
/// [`append`](VersionedSessionStorage::append) adds the new messages at the end of the file and syncs it once. Its
/// cost does not depend on the length of the session. Every other write replaces the file as a whole: the new file is
/// written beside the old one, synced to the disk, and then takes its name. Whatever ends the process or the machine,
/// the old or the new session is there.
///
/// Several processes may share a directory. Writers wait for each other: locks of the operating system
/// make [`update`](VersionedSessionStorage::update) and [`append`](VersionedSessionStorage::append)
/// exact between processes too; where the file system has no such locks, every write is an error. They
/// are in a hidden folder, `.neuron`, beside the sessions, and so is what is being written.
///
/// An append replaces the whole file too if an interrupted append left an incomplete end, if the file is of an earlier
/// version, is a link or has several hard links, or if outdated states fill more than 64 KiB and half of the file. On
/// other systems than Unix hard links cannot be counted, and every append replaces the file.
///
/// # What is refused
///
/// A file has checksums. A changed bit, a cut, or bytes after the end are [`StorageError::Corrupt`] with the name
/// of the file. So is an edit by hand: set `"version"` to 1 and remove both checksums and everything after the first
/// JSON object to keep an edit. Files of versions 1 and 2, which earlier releases wrote, are read. Version 1 has no
/// checksum. Both become version 3 with the next write.
///
/// An append that was interrupted leaves an incomplete end, which is left out. An append reads the beginning and the
/// end of the file alone, so damage between them is found by the next load.
///
/// A file that is no session or holds the session of another id is [`StorageError::Corrupt`] too. A file of a newer
/// version is [`StorageError::UnsupportedVersion`]. Neither is overwritten: every write first reads the file that it
/// replaces. [`delete`](SessionStorage::delete) deletes a damaged session, but no session of a newer version.
///
/// [`list`](SessionStorage::list) reads the beginning and the end of a file alone. It lists a session that it cannot
/// read with its [damage](SessionSummary::damage). Files whose names are not those of sessions are left alone. A
/// session whose JSON is nested more than 256 deep is not taken.
///
/// # Where the work happens
///
/// On tokio's threads for blocking work, if there is a tokio runtime; else on the thread that polls. Only
/// the JSON of a whole session is made where the future is polled: the session is borrowed.
///
/// Nobody waits there for the lock of another process: a process that stands still while it writes keeps
/// others from writing that session and the few that share its lock, but not from reading, and a write
/// that waits for it can be dropped, and its runtime shut down.
///
/// # Cancel safety
///
/// A write whose future is dropped happens whole or not at all, and never after a write that the same
/// caller began later.
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
/// # Example: go on in another process
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
/// // Later, in a new process: the model sees the whole conversation. If somebody else wrote to the session
/// // meanwhile, the run ends with the conflict.
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
    /// Names the directory of the sessions. Nothing is read or written yet: the directory is made with
    /// the first session.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory: Directory::new(directory) }
    }

    /// Returns the directory of the sessions.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Reads, away from the executor.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let directory = self.directory.clone();
        blocking(move |_| work(&directory)).await
    }

    /// Writes, away from the executor, once nobody else writes the session. `open` opens its lock.
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

/// A revision that no other write has, whoever makes it.
fn new_revision() -> SessionRevision {
    SessionRevision::new(Uuid::new_v4().simple().to_string())
}

impl SessionStorage for FileSessionStorage {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let json = document::write(session, &new_revision())?;
        self.write(&session.id, Directory::lock_or_make, move |file, caller| {
            // Nobody's work is overwritten that could not be read.
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
        let (messages, state) = (messages.to_vec(), state.cloned());
        self.write(id, Directory::lock, move |file, caller| {
            if file.append(&messages, state.as_ref(), &expected, &given, caller)? {
                return Ok(());
            }
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
