//! Finds sessions that are in the table but not in its index of ids ([`LostIds`]).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use neuron_sqlite::rusqlite::{self, Connection};

/// The ids of sessions that are missing in a damaged index. Without this set, such a session would be reported as not
/// found.
///
/// The set is computed once, when a session is not found for the first time. Damage that happens later is not detected.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostIds(Arc<OnceLock<BTreeSet<String>>>);

impl LostIds {
    /// Returns `true` if the table contains the id but the index does not.
    pub(crate) fn contains(&self, connection: &Connection, id: &str) -> rusqlite::Result<bool> {
        let lost = match self.0.get() {
            Some(lost) => lost,
            None => {
                let lost = find(connection)?;
                self.0.get_or_init(|| lost)
            }
        };
        Ok(lost.contains(id))
    }
}

/// Returns the ids of sessions that are in the table, but not in its index of ids because the index is damaged. Reads
/// all rows of the table.
pub(crate) fn find(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut select = connection.prepare(
        "SELECT CAST(id AS BLOB) FROM sessions AS row NOT INDEXED WHERE NOT EXISTS (
            SELECT 1 FROM sessions AS found INDEXED BY sqlite_autoindex_sessions_1
            WHERE found.id = row.id
        )",
    )?;
    let ids = select.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    ids.map(|id| Ok(String::from_utf8_lossy(&id?).into_owned())).collect()
}
