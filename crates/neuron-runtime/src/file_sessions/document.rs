//! A session as JSON: the form of the files.
//!
//! What describes the session comes first, one field a line, then its messages, one a line:
//!
//! ```text
//! {
//!   "format": "neuron session",
//!   "version": 1,
//!   "revision": "1f0e…",
//!   "id": "chat-42",
//!   "created_at": "2026-01-01T12:00:00Z",
//!   "updated_at": "2026-01-01T12:00:00Z",
//!   "message_count": 1,
//!   "state": {…},
//!   "messages": [
//!     {"role":"user","content":[{"type":"text","text":"Hello"}]}
//!   ]
//! }
//! ```
//!
//! Whoever reads it takes any JSON with these fields. The lines are for people, for tools that work on
//! lines, and for [`outline`](super::outline), which reads the beginning alone.

use std::io::Write;
use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{Message, Session, SessionRevision, SessionState, StorageError, stored_json};
use serde::Deserialize;

/// What files say that they are.
pub(super) const FORMAT: &str = "neuron session";

/// The version that is written, and the newest that is read.
pub(super) const VERSION: u64 = 1;

/// How the messages begin, and how a file ends: both are lines that stand nowhere else, because no
/// line of a message begins with less than four spaces.
pub(super) const MESSAGES: &str = "  \"messages\": [\n";
pub(super) const END: &str = "  ]\n}\n";

#[derive(Deserialize)]
struct Document {
    format: String,
    version: u64,
    revision: String,
    id: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    message_count: usize,
    state: SessionState,
    messages: Vec<Message>,
}

/// What every version has.
#[derive(Deserialize)]
pub(super) struct Kind {
    pub(super) format: String,
    pub(super) version: u64,
}

/// Writes a session as JSON.
pub(super) fn write(
    session: &Session,
    revision: &SessionRevision,
) -> Result<Vec<u8>, StorageError> {
    let json = write_lines(session, revision)
        .map_err(|error| StorageError::Serialization(error.to_string()))?;
    stored_json::check_depth(&json)?;
    Ok(json)
}

fn write_lines(session: &Session, revision: &SessionRevision) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let json = |value: &str| serde_json::to_string(value);
    writeln!(out, "{{\n  \"format\": {},", json(FORMAT)?)?;
    writeln!(out, "  \"version\": {VERSION},")?;
    writeln!(out, "  \"revision\": {},", json(revision.as_str())?)?;
    writeln!(out, "  \"id\": {},", json(&session.id)?)?;
    writeln!(out, "  \"created_at\": {},", serde_json::to_string(&session.created_at)?)?;
    writeln!(out, "  \"updated_at\": {},", serde_json::to_string(&session.updated_at)?)?;
    writeln!(out, "  \"message_count\": {},", session.messages.len())?;
    write!(out, "  \"state\": ")?;
    serde_json::to_writer(&mut out, &session.state)?;
    write!(out, ",\n{MESSAGES}")?;
    for (index, message) in session.messages.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"    " } else { b",\n    " });
        serde_json::to_writer(&mut out, message)?;
    }
    if !session.messages.is_empty() {
        out.push(b'\n');
    }
    out.extend_from_slice(END.as_bytes());
    Ok(out)
}

/// Reads the session of an id from the JSON of a file.
pub(super) fn read(
    json: &[u8],
    id: &str,
    path: &Path,
) -> Result<(Session, SessionRevision), StorageError> {
    let document: Document = match stored_json::read(json) {
        Ok(document) => document,
        // A newer version may have other fields.
        Err(error) => {
            if let Ok(Kind { format, version }) = stored_json::read(json) {
                check_kind(&format, version, path)?;
            }
            return Err(corrupt(path, error.to_string()));
        }
    };
    check_kind(&document.format, document.version, path)?;
    check_id(&document.id, id, path)?;
    check_count(document.message_count, document.messages.len(), path)?;
    let session = Session {
        id: document.id,
        messages: document.messages,
        state: document.state,
        created_at: document.created_at,
        updated_at: document.updated_at,
    };
    Ok((session, SessionRevision::new(document.revision)))
}

/// Whether this is a session, of a version that can be read.
pub(super) fn check_kind(format: &str, version: u64, path: &Path) -> Result<(), StorageError> {
    if format != FORMAT || version == 0 {
        return Err(corrupt(path, format!("its format is {format:?}, version {version}")));
    }
    match version > VERSION {
        true => Err(StorageError::UnsupportedVersion {
            location: path.display().to_string(),
            found: version,
            supported: VERSION,
        }),
        false => Ok(()),
    }
}

/// Whether the session is the one that the file is named after: file systems may take two names for
/// one.
pub(super) fn check_id(found: &str, id: &str, path: &Path) -> Result<(), StorageError> {
    match found == id {
        true => Ok(()),
        false => Err(corrupt(path, format!("it is the session {found:?}, not {id:?}"))),
    }
}

pub(super) fn check_count(said: usize, found: usize, path: &Path) -> Result<(), StorageError> {
    match said == found {
        true => Ok(()),
        false => Err(corrupt(path, format!("it should have {said} messages and has {found}"))),
    }
}

pub(super) fn corrupt(path: &Path, reason: String) -> StorageError {
    StorageError::Corrupt { location: path.display().to_string(), reason }
}
