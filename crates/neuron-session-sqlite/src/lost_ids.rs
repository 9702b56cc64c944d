//! Sessions that are in the table and not in its index of ids.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use neuron_sqlite::rusqlite::{self, Connection};

/// The ids that a damaged index does not have. A session that the index lost would look as if it had never been there.
///
/// They are looked for once, when the first session is not found: damage happens to files that rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostIds(Arc<OnceLock<BTreeSet<String>>>);

impl LostIds {
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

/// Reads the table row by row, and looks up each id.
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
