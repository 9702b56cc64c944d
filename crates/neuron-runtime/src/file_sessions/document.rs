//! Encodes and decodes the JSON document of a session's file.
//!
//! The fields of the session come first, one field per line. The messages follow, one message per line:
//!
//! ```text
//! {
//!   "format": "neuron session",
//!   "version": 3,
//!   "revision": "1f0e…",
//!   "id": "chat-42",
//!   "created_at": "2026-01-01T12:00:00Z",
//!   "updated_at": "2026-01-01T12:00:00Z",
//!   "message_count": 1,
//!   "state": {…},
//!   "head_checksum": "5d41…",
//!   "messages": [
//!     {"role":"user","content":[{"type":"text","text":"Hello"}]}
//!   ],
//!   "checksum": "9f86…"
//! }
//! ```
//!
//! Both checksums cover all bytes before their line. [`outline`](super::outline) reads only the beginning of the
//! document and verifies `head_checksum`. All other readers verify `checksum`. Appended [batches](super::batches)
//! follow the document.
//!
//! Version 2 is a document without batches. Version 1 is any JSON object with these fields except the checksums. If a
//! document contains a checksum, it must match in every version. Otherwise a changed bit in `version` could turn a
//! newer document into a valid document of version 1.

use std::io::Write;
use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{Message, Session, SessionRevision, SessionState, StorageError, stored_json};
use serde::Deserialize;

use super::batches;
use super::checksum::{HEAD, WHOLE};

/// Value of the field `format`, which is the same in all versions.
pub(super) const FORMAT: &str = "neuron session";

/// Version of the file format that this release writes, and the newest version that it reads.
pub(super) const VERSION: u64 = 3;

/// Newest version of the file format that has no checksums.
const WITHOUT_CHECKSUM: u64 = 1;

/// Line that opens the list of messages in a document. No other line is equal, because lines of messages start with at
/// least four spaces.
pub(super) const MESSAGES: &str = "  \"messages\": [\n";
/// Line that closes the list of messages in a document.
const MESSAGES_END: &str = "  ],\n";

/// Last bytes of a file of version 1.
const END_1: &str = "  ]\n}\n";

/// Number of bytes at the end of a file that [`is_end`] must receive.
pub(super) const END_LENGTH: usize = MESSAGES_END.len() + WHOLE.len() + 1;

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

/// The fields that identify the file format. Documents of newer versions have them too.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: u64,
}

/// Encodes a session as a document. Returns an error if a value has no JSON form or is nested too deeply.
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
    // Written line by line, so that `outline` finds the fields without parsing the messages.
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
    out.extend_from_slice(b",\n");
    HEAD.write(&mut out);
    out.extend_from_slice(MESSAGES.as_bytes());
    for (index, message) in session.messages.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"    " } else { b",\n    " });
        serde_json::to_writer(&mut out, message)?;
    }
    if !session.messages.is_empty() {
        out.push(b'\n');
    }
    out.extend_from_slice(MESSAGES_END.as_bytes());
    WHOLE.write(&mut out);
    out.push(batches::LAST);
    Ok(out)
}

/// Returns `true` if a file whose last bytes are `last` ends with the end of a document. Returns `false` if the file
/// was cut.
pub(super) fn is_end(last: &[u8]) -> bool {
    let covered = last.strip_suffix(&[batches::LAST]).and_then(|last| WHOLE.split(last));
    covered.is_some_and(|covered| covered.ends_with(MESSAGES_END.as_bytes()))
        || last.ends_with(END_1.as_bytes())
}

/// Decodes the session with this id from the bytes of a file. `path` is named in errors.
pub(super) fn read(
    file: &[u8],
    id: &str,
    path: &Path,
) -> Result<(Session, SessionRevision), StorageError> {
    let (json, batches) = batches::split(file);
    // Verified before parsing, so that damage is not reported as a syntax error.
    let checksum = Checksum::of(WHOLE.matches(json), path)?;
    let document: Document = match stored_json::read(json) {
        Ok(document) => document,
        // A newer version may have other fields. Its error must name the version and not a missing field.
        Err(error) => {
            if let Ok(Kind { format, version }) = stored_json::read(json) {
                check_kind(&format, version, path)?;
            }
            return Err(corrupt(path, error.to_string()));
        }
    };
    check_kind(&document.format, document.version, path)?;
    checksum.check(document.version, path)?;
    check_id(&document.id, id, path)?;
    check_count(document.message_count, document.messages.len(), path)?;
    let mut session = Session {
        id: document.id,
        messages: document.messages,
        state: document.state,
        created_at: document.created_at,
        updated_at: document.updated_at,
    };
    let mut revision = SessionRevision::new(document.revision);
    match WHOLE.digits(json) {
        // Older versions have no batches, so additional bytes are damage.
        Some(_) if document.version < VERSION && batches != [batches::LAST] => {
            return Err(changed(path));
        }
        Some(chain) => {
            batches::read(batches, chain.to_owned(), &mut session, &mut revision, path)?;
        }
        None => {}
    }
    Ok((session, revision))
}

/// Proof that a document's checksum was tested. The checksum either matched or was missing.
pub(super) struct Checksum {
    /// Set if the document has a checksum. `false` if it has none.
    is_there: bool,
}

impl Checksum {
    /// Converts the result of a checksum's verification. `None` means that the document has no checksum. Call this
    /// function before any other check of the document.
    ///
    /// # Errors
    ///
    /// Returns an error if the checksum does not match (`Some(false)`).
    pub(super) fn of(matches: Option<bool>, path: &Path) -> Result<Self, StorageError> {
        match matches {
            Some(false) => Err(changed(path)),
            matches => Ok(Self { is_there: matches.is_some() }),
        }
    }

    /// Returns an error if the checksum is missing in a version that has checksums.
    pub(super) fn check(&self, version: u64, path: &Path) -> Result<(), StorageError> {
        match self.is_there || version <= WITHOUT_CHECKSUM {
            true => Ok(()),
            false => Err(changed(path)),
        }
    }
}

/// Returns the error for a file whose checksum does not match.
pub(super) fn changed(path: &Path) -> StorageError {
    let reason = "its checksum does not match, so it was damaged or edited (to keep an edit, set \"version\" to 1 \
                  and remove the lines \"head_checksum\" and \"checksum\" and all after the document)";
    corrupt(path, reason.into())
}

/// Returns an error if a file is not a session, or its version is newer than [`VERSION`].
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

/// Returns an error if the session in a file does not have the requested id. The ids can differ if the file system
/// ignores case, because one file then has two names.
pub(super) fn check_id(found: &str, id: &str, path: &Path) -> Result<(), StorageError> {
    match found == id {
        true => Ok(()),
        false => Err(corrupt(path, format!("it is the session {found:?}, not {id:?}"))),
    }
}

/// Returns an error if the number of messages differs from the field `message_count`.
pub(super) fn check_count(said: usize, found: usize, path: &Path) -> Result<(), StorageError> {
    match said == found {
        true => Ok(()),
        false => Err(corrupt(path, format!("it should have {said} messages and has {found}"))),
    }
}

/// Returns a [`StorageError::Corrupt`] that names the file and the way to repair it.
pub(super) fn corrupt(path: &Path, reason: String) -> StorageError {
    let reason = format!("{reason}; restore it from a backup, or delete the session");
    StorageError::Corrupt { location: path.display().to_string(), reason }
}
