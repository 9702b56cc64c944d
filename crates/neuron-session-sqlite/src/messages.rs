//! Encodes the messages of a session, and reads and writes their rows ([`Bodies`]).

use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, OptionalExtension as _};
use neuron_types::{Message, StorageError, stored_json};

use crate::digest::Digest;
use crate::session_row::SessionRow;

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// The JSON of several messages, in one buffer.
pub(crate) struct Bodies {
    text: Vec<u8>,
    /// End position of each message in `text`.
    ends: Vec<usize>,
}

impl Bodies {
    /// Serialises messages. Returns an error if a message has no JSON form.
    pub(crate) fn of(messages: &[Message]) -> std::result::Result<Self, StorageError> {
        let mut bodies = Self { text: Vec::new(), ends: Vec::with_capacity(messages.len()) };
        for message in messages {
            stored_json::write(&mut bodies.text, message)?;
            bodies.ends.push(bodies.text.len());
        }
        Ok(bodies)
    }

    /// Returns the JSON of each message.
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let body = self.text.get(start..*end).unwrap_or_default();
            start = *end;
            body
        })
    }

    /// Returns one digest for each message, which covers that message and all messages before it.
    ///
    /// `start` is the digest of the messages that precede these messages in the session.
    pub(crate) fn digests(&self, start: Digest) -> Vec<Digest> {
        let chain = self.iter().scan(start, |digest, body| {
            *digest = digest.then(body);
            Some(*digest)
        });
        chain.collect()
    }

    /// Inserts the rows of the messages, without the first `skipped` messages. `start` is the position of the first
    /// message in the session, even if that message is skipped. `digests` contains a digest for each message.
    pub(crate) fn insert(
        &self,
        connection: &Connection,
        session: i64,
        start: usize,
        digests: &[Digest],
        skipped: usize,
    ) -> Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO messages (session, position, digest, body) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let rows = (start..).zip(self.iter().zip(digests));
        for (position, (body, digest)) in rows.skip(skipped) {
            let body = str::from_utf8(body)
                .map_err(|error| StorageError::Serialization(error.to_string()))?;
            insert.execute((session, position, digest, body))?;
        }
        Ok(())
    }
}

/// Reads the messages from the position `from` to the end of the session. `take` decodes each message. Returns an error
/// if a message is damaged or missing.
pub(crate) fn read<T>(
    connection: &Connection,
    head: &SessionRow,
    from: usize,
    take: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> Result<Vec<T>> {
    // The chain of digests continues after the messages before `from`.
    let mut digest = digest_before(connection, head, from)?;
    let mut select = connection.prepare_cached(
        "SELECT position, digest, body FROM messages
         WHERE session = ?1 AND position >= ?2 ORDER BY position",
    )?;
    let mut rows = select.query((head.key, from))?;
    let mut messages = Vec::new();
    for position in from..head.content.message_count {
        let Some(row) = rows.next()? else {
            return Err(head.corrupt(format!("message {position} is missing")));
        };
        let body = row.get_ref(2)?.as_bytes().unwrap_or_default();
        digest = digest.then(body);
        if row.get::<_, usize>(0)? != position || row.get::<_, Digest>(1)? != digest {
            return Err(head.corrupt(format!("message {position} is not as written")));
        }
        let message = take(body);
        messages
            .push(message.map_err(|error| head.corrupt(format!("message {position}: {error}")))?);
    }
    // Further rows are damage too.
    if rows.next()?.is_some() || digest != head.content.messages_digest {
        return Err(head.corrupt("its messages do not match its digest"));
    }
    Ok(messages)
}

/// Returns the stored digest of all messages before a position.
pub(crate) fn digest_before(
    connection: &Connection,
    head: &SessionRow,
    position: usize,
) -> Result<Digest> {
    let Some(last) = position.checked_sub(1) else {
        return Ok(Digest::START);
    };
    let mut select = connection
        .prepare_cached("SELECT digest FROM messages WHERE session = ?1 AND position = ?2")?;
    let digest = select.query_row((head.key, last), |row| row.get(0)).optional()?;
    digest.ok_or_else(|| head.corrupt(format!("message {last} is missing")))
}
