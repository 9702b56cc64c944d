//! Encodes and decodes batches of messages, which are appended to the document of a session's file.
//!
//! A batch consists of two lines. The first line contains the messages. The second line is the closing line:
//!
//! ```text
//! {"messages":[{"role":"user",…}],"state":{…}}
//! {"revision":"1f0e…","updated_at":"…","message_count":2,"state_bytes":120,"chain":"5d41…","checksum":"9f86…"}
//! ```
//!
//! `chain` is a checksum of the first line, the fields before `chain`, and the `chain` of the previous batch. For the
//! first batch, the checksum of the document is the previous `chain`. `checksum` covers only the closing line, so that
//! this line can be verified without the rest of the file.
//!
//! The byte after a document or a closing line is [`LAST`]. Once the next batch was synced, it is changed to
//! [`FOLLOWED`]. An incomplete batch after [`LAST`] was therefore never acknowledged, and is ignored. A missing batch
//! after [`FOLLOWED`] is damage.

use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{Message, Session, SessionRevision, SessionState, StorageError, stored_json};
use serde::{Deserialize, Serialize};

use super::checksum::{CHAIN, LINE, WHOLE};
use super::document::{changed, check_count, corrupt};

/// Byte after the last batch, or after a document without batches.
pub(super) const LAST: u8 = b'\n';

/// Byte after a document or a batch that another synced batch follows. Both this byte and [`LAST`] are white space in
/// JSON.
pub(super) const FOLLOWED: u8 = b'\r';

/// First bytes of every batch.
const OPENING: &[u8] = b"{\"messages\":[";

/// Total size in bytes that the states in all batches may have without a rewrite of the file.
const KEPT_STATE_BYTES: u64 = 64 << 10;

/// Maximum length in bytes of the line that closes a batch.
pub(super) const LONGEST_CLOSING: usize = 1024;

#[derive(Deserialize)]
struct Content {
    messages: Vec<Message>,
    state: Option<SessionState>,
}

/// The fields of the line that closes a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Closing {
    pub(super) revision: String,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) message_count: usize,
    /// Total size in bytes of the states in all batches so far.
    pub(super) state_bytes: u64,
    /// Checksum of all batches so far. It is appended after the other fields, in the form of [`CHAIN`].
    #[serde(skip_serializing)]
    pub(super) chain: String,
}

/// Data that is needed to append the next batch to a session's file.
#[derive(Debug)]
pub(super) struct Tip {
    /// Length of the file in bytes.
    pub(super) length: u64,
    pub(super) message_count: usize,
    pub(super) state_bytes: u64,
    /// Checksum of the document or of the last batch, which the next batch continues.
    pub(super) chain: String,
}

impl Tip {
    /// Encodes the next batch. Returns `None` if the caller must rewrite the file instead. This is the case if the
    /// states in all batches fill more than [`KEPT_STATE_BYTES`] and more than half of the file.
    pub(super) fn batch(
        self,
        messages: &[Message],
        state: Option<&SessionState>,
        revision: &SessionRevision,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let serialization =
            |error: serde_json::Error| StorageError::Serialization(error.to_string());
        // The new chain covers the previous one, which is removed from the front at the end.
        let mut out = self.chain.into_bytes();
        let chain_length = out.len();
        out.extend_from_slice(b"{\"messages\":");
        serde_json::to_writer(&mut out, messages).map_err(serialization)?;
        out.extend_from_slice(b",\"state\":");
        let before_state = out.len();
        serde_json::to_writer(&mut out, &state).map_err(serialization)?;
        let state_bytes = state.map_or(0, |_| (out.len() - before_state) as u64);
        out.push(b'}');
        stored_json::check_depth(out.get(chain_length..).unwrap_or_default())?;
        out.push(b'\n');
        let start = out.len();
        let closing = Closing {
            revision: revision.as_str().to_owned(),
            updated_at: Utc::now(),
            message_count: self.message_count + messages.len(),
            state_bytes: self.state_bytes + state_bytes,
            chain: String::new(),
        };
        if closing.state_bytes
            > KEPT_STATE_BYTES.max(self.length.saturating_sub(closing.state_bytes))
        {
            return Ok(None);
        }
        serde_json::to_writer(&mut out, &closing).map_err(serialization)?;
        // The brace is removed, because `CHAIN` and `LINE` continue the object.
        out.pop();
        CHAIN.write(&mut out);
        let mut line = out.split_off(start);
        LINE.write(&mut line);
        out.append(&mut line);
        out.push(LAST);
        out.drain(..chain_length);
        Ok(Some(out))
    }
}

/// Splits the bytes of a file into its document and its batches. The batches start with the byte after the document.
pub(super) fn split(file: &[u8]) -> (&[u8], &[u8]) {
    let mut start = 0;
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        if WHOLE.begins(line) {
            return file.split_at_checked(start + WHOLE.len()).unwrap_or((file, &[]));
        }
        start += line.len();
    }
    (file, &[])
}

/// Decodes the closing line at the end of a file. `bytes` are the file's last bytes. Returns `None` if they do not end
/// with a valid closing line.
pub(super) fn last(bytes: &[u8]) -> Option<Closing> {
    let (&LAST, bytes) = bytes.split_last()? else {
        return None;
    };
    let start = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
    let line = bytes.get(start..)?;
    (LINE.matches(line) == Some(true)).then(|| serde_json::from_slice(line).ok())?
}

/// Decodes all batches of a file. Adds their messages and states to the session from the document, and sets `revision`
/// to the revision of the last batch. `chain` is the checksum of the document.
pub(super) fn read(
    batches: &[u8],
    mut chain: String,
    session: &mut Session,
    revision: &mut SessionRevision,
    path: &Path,
) -> Result<(), StorageError> {
    let Some((mut end, mut rest)) = batches.split_first() else {
        return Err(changed(path));
    };
    while !rest.is_empty() {
        let Some((batch, next_end, next)) = first(rest) else {
            // An incomplete batch is the rest of an append that was never acknowledged.
            return match *end == LAST && (rest.starts_with(OPENING) || OPENING.starts_with(rest)) {
                true => Ok(()),
                false => Err(changed(path)),
            };
        };
        let covered = [chain.as_bytes(), batch.content, batch.closing].concat();
        let is_whole = LINE.matches(batch.closing) == Some(true)
            && LINE.split(&covered).and_then(|covered| CHAIN.matches(covered)) == Some(true);
        if !is_whole || ![LAST, FOLLOWED].contains(end) {
            return Err(changed(path));
        }
        let invalid = |reason: String| corrupt(path, reason);
        let content: Content =
            stored_json::read(batch.content).map_err(|error| invalid(error.to_string()))?;
        let closing: Closing =
            stored_json::read(batch.closing).map_err(|error| invalid(error.to_string()))?;
        session.messages.extend(content.messages);
        check_count(closing.message_count, session.messages.len(), path)?;
        if let Some(state) = content.state {
            session.state = state;
        }
        session.updated_at = closing.updated_at;
        *revision = SessionRevision::new(closing.revision);
        chain = closing.chain;
        (end, rest) = (next_end, next);
    }
    match *end == LAST {
        true => Ok(()),
        false => Err(changed(path)),
    }
}

/// The two lines of a batch. `content` includes its line feed. `closing` does not include the byte after the line.
struct Batch<'b> {
    content: &'b [u8],
    closing: &'b [u8],
}

/// Splits bytes into the first batch, the byte after the batch, and the remaining bytes. Returns `None` if the batch is
/// incomplete.
fn first(bytes: &[u8]) -> Option<(Batch<'_>, &u8, &[u8])> {
    let content = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let (content, rest) = bytes.split_at_checked(content)?;
    let closing = rest.iter().position(|byte| [LAST, FOLLOWED].contains(byte))?;
    let (closing, rest) = rest.split_at_checked(closing)?;
    let (end, rest) = rest.split_first()?;
    Some((Batch { content, closing }, end, rest))
}
