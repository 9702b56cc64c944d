//! The storage of sessions ([`SqliteSessionStorage`]). Each of its methods runs one transaction.

use std::path::Path;

use neuron_sqlite::{Database, SqliteOptions};
use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage, check_session_id,
};

use crate::append::Addition;
use crate::load;
use crate::lost_ids::LostIds;
use crate::replace::{Before, Replacement};
use crate::schema::SESSIONS;
use crate::session_row::{self, SessionRow};

/// Minimum number of free pages (1 MiB) for which a deletion returns the pages to the file system. Fewer free pages
/// stay in the file for later messages.
const MANY_PAGES: i64 = 256;

/// Stores sessions in a SQLite database. Clones share its connections.
///
/// On Unix, only the owner can read a new database, its other files and its backups. An existing database keeps its
/// mode.
///
/// # Cancel safety
///
/// If the future of a write is dropped, the write happens completely or not at all. It never happens after a write that
/// was started later through this storage or a clone.
#[derive(Debug, Clone)]
pub struct SqliteSessionStorage {
    database: Database,
    /// Sessions that a damaged index of ids does not contain.
    lost: LostIds,
}

impl SqliteSessionStorage {
    /// Opens a database of sessions and migrates it to the newest version. Creates the database and its folder if they
    /// do not exist.
    ///
    /// The path `:memory:` opens a database in memory, which exists as long as this value and its clones.
    ///
    /// # Errors
    ///
    /// - [`StorageError::Corrupt`] if the file is not a database of sessions, is damaged, or has lost commits. For lost
    ///   commits, [`accept_older`](crate::accept_older) accepts the older state.
    /// - [`StorageError::UnsupportedVersion`] if a newer version wrote the database.
    /// - [`StorageError::Io`] if the file cannot be read or written.
    ///
    /// After an error the file is unchanged.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens a database as [`open`](Self::open) does, with options.
    ///
    /// # Errors
    ///
    /// The same errors as [`open`](Self::open).
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, StorageError> {
        let path = path.as_ref().to_owned();
        let database = Database::open_witnessed(path, SESSIONS, options).await?;
        Ok(Self { database, lost: LostIds::default() })
    }

    /// Writes a consistent copy of all sessions to a new file. The sessions can be read and written during the copy.
    ///
    /// The copy is a complete database. It gets its name only after it was written and synced.
    ///
    /// # Errors
    ///
    /// - [`StorageError::Io`] if there is already a file at the path, or its folder does not exist.
    /// - [`StorageError::Corrupt`] if the database is damaged. A damaged session is not an error if the database itself
    ///   is intact. Such a session is copied unchanged.
    ///
    /// After an error there is no new file at the path.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is written completely or not at all.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<(), StorageError> {
        Ok(self.database.backup(path).await?)
    }

    /// Writes a whole session if the stored state is as `before` requires.
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
            // The row is deleted without reading it, so that a damaged session can be deleted too.
            if transaction.execute("DELETE FROM sessions WHERE id = ?1", [&id])? == 0 {
                if lost.contains(transaction, &id)? {
                    return Err(session_row::corrupt(transaction, &id, session_row::NOT_INDEXED));
                }
                return Err(StorageError::NotFound(id).into());
            }
            Ok(transaction
                .pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0))?)
        });
        if deleted.await? >= MANY_PAGES {
            // The session is already deleted. If this fails, the next deletion returns the space.
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
            .read(move |transaction| Ok(SessionRow::get(transaction, &lost, &id)?.revision()));
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
