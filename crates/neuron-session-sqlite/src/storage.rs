//! The storage, each method of which is one transaction.

use std::path::Path;

use neuron_sqlite::{Database, SqliteOptions};
use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage, check_session_id,
};

use crate::append::Addition;
use crate::head::{self, Head};
use crate::load;
use crate::lost_ids::LostIds;
use crate::replace::{Before, Replacement};
use crate::schema::SESSIONS;

/// Minimum number of free pages (1 MiB) that a deletion returns to the file system. Fewer pages are kept for the
/// next messages.
const MANY_PAGES: i64 = 256;

/// Stores sessions in a SQLite database. Clones share its connections.
///
/// # Cancel safety
///
/// A write whose future is dropped happens wholly or not at all, and never after one that was begun
/// later by the same storage or its clones.
#[derive(Debug, Clone)]
pub struct SqliteSessionStorage {
    database: Database,
    lost: LostIds,
}

impl SqliteSessionStorage {
    /// Opens a database of sessions, creates it if there is none, and brings it up to date. Its folder
    /// must exist.
    ///
    /// The path `:memory:` gives one that lives as long as this value and its clones.
    ///
    /// # Errors
    ///
    /// [`StorageError::Corrupt`] when there is something else, it is damaged, or it lost commits that it had:
    /// [`accept_older`](crate::accept_older) then accepts the older state.
    /// [`StorageError::UnsupportedVersion`] when a newer version wrote it, [`StorageError::Io`] when it
    /// cannot be read or written. What is there is left as it is.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens a database as [`open`](Self::open) does, with options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, StorageError> {
        let path = path.as_ref().to_owned();
        let database = Database::open_witnessed(path, SESSIONS, options).await?;
        Ok(Self { database, lost: LostIds::default() })
    }

    /// Writes a copy of all sessions, as they are at one moment, to a new file. Others go on reading and writing.
    ///
    /// The copy is a complete database of its own, and is on the disk before it has its name.
    ///
    /// # Errors
    ///
    /// [`StorageError::Io`] if there is a file at the path, or its folder does not exist. [`StorageError::Corrupt`] if
    /// the database is damaged. No file is then left at the path. A damaged session that the database can read is
    /// copied as it is.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is written all the same or not at all.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<(), StorageError> {
        Ok(self.database.backup(path).await?)
    }

    async fn replace(
        &self,
        session: &Session,
        before: Before,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let replacement = Replacement::of(session)?;
        let lost = self.lost.clone();
        self.database.write(move |transaction| replacement.write(transaction, &lost, &before)).await
    }
}

impl SessionStorage for SqliteSessionStorage {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        self.replace(session, Before::Anything).await.map(drop)
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        self.load_versioned(id).await.map(|(session, _)| session)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        self.database.read(|transaction| load::list(transaction)).await
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        check_session_id(id)?;
        let (lost, id) = (self.lost.clone(), id.to_owned());
        let deleted = self.database.write(move |transaction| {
            // Also one that cannot be read any more.
            if transaction.execute("DELETE FROM sessions WHERE id = ?1", [&id])? == 0 {
                if lost.contains(transaction, &id)? {
                    return Err(head::corrupt(transaction, &id, head::NOT_INDEXED));
                }
                return Err(StorageError::NotFound(id).into());
            }
            Ok(transaction
                .pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0))?)
        });
        if deleted.await? >= MANY_PAGES {
            // The session is gone. What fails here is space that the next deletion gives back.
            let _ = self.database.reclaim().await;
        }
        Ok(())
    }
}

impl VersionedSessionStorage for SqliteSessionStorage {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        self.replace(session, Before::Nothing).await
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        check_session_id(id)?;
        let (lost, id) = (self.lost.clone(), id.to_owned());
        self.database.read(move |transaction| load::load(transaction, &lost, &id)).await
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let (lost, id) = (self.lost.clone(), id.to_owned());
        let read = self
            .database
            .read(move |transaction| Ok(Head::get(transaction, &lost, &id)?.revision()));
        read.await
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        self.replace(session, Before::Revision(expected.clone())).await
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let addition = Addition::of(messages, state)?;
        let (lost, id, expected) = (self.lost.clone(), id.to_owned(), expected.clone());
        let write = self
            .database
            .write(move |transaction| addition.write(transaction, &lost, &id, &expected));
        write.await
    }
}
