//! Reads the fields of a session's file without its messages ([`Outline`]).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{SessionRevision, SessionSummary, StorageError};
use serde::Deserialize;

use super::batches::{self, LONGEST_CLOSING, Tip};
use super::checksum::{HEAD, WHOLE};
use super::document::{
    self, Checksum, END_LENGTH, MESSAGES, VERSION, check_id, check_kind, is_end,
};
use super::files::open;
use super::path_error::naming;

/// Maximum number of bytes before the messages of a file. A file with a longer beginning is read completely.
const LONGEST_BEGINNING: u64 = 1 << 20;

/// Number of bytes at the end of a file that are read.
const LONGEST_END: usize = if END_LENGTH > LONGEST_CLOSING { END_LENGTH } else { LONGEST_CLOSING };

/// The fields of a stored session, without its messages.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) summary: SessionSummary,
    pub(super) revision: SessionRevision,
    /// Data for appending the next batch of messages. `None` if the file must be rewritten first.
    pub(super) tip: Option<Tip>,
}

#[derive(Deserialize)]
struct Fields {
    format: String,
    version: u64,
    revision: String,
    id: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    message_count: usize,
}

/// Reads the outline of a session's file. Returns `None` if there is no file.
///
/// Reads only the beginning and the end of a file in the current format. Reads any other file completely.
pub(super) fn read(path: &Path, id: &str) -> Result<Option<Outline>, StorageError> {
    let Some(mut file) = open(path)? else {
        return Ok(None);
    };
    if let Some(ends) = Ends::read(&mut file).map_err(naming("read", path))?
        && let Some(outline) = ends.outline(path, id)?
    {
        return Ok(Some(outline));
    }
    let mut json = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut json)).map_err(naming("read", path))?;
    let (session, revision) = document::read(&json, id, path)?;
    Ok(Some(Outline { summary: session.summary(), revision, tip: None }))
}

/// The beginning and the end of a session's file.
struct Ends {
    /// All lines of the file before its messages.
    beginning: Vec<u8>,
    /// The last bytes of the file, at most [`LONGEST_END`] bytes.
    last: Vec<u8>,
    /// Length of the file in bytes.
    length: u64,
}

impl Ends {
    /// Reads the beginning and the end of a file. Returns `None` if the beginning differs from the format of this
    /// release.
    fn read(file: &mut File) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let mut beginning = Vec::new();
        let mut lines = BufReader::new(&mut *file).take(LONGEST_BEGINNING);
        loop {
            let start = beginning.len();
            if lines.read_until(b'\n', &mut beginning)? == 0 {
                return Ok(None);
            }
            if beginning.get(start..) == Some(MESSAGES.as_bytes()) {
                beginning.truncate(start);
                break;
            }
        }
        file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_END as u64)))?;
        let mut last = Vec::new();
        // Limited by `take`, because another process may append during the read.
        file.take(length.min(LONGEST_END as u64)).read_to_end(&mut last)?;
        Ok(beginning.ends_with(b",\n").then_some(Self { beginning, last, length }))
    }

    /// Decodes the outline. Returns `None` if the whole file must be read instead.
    fn outline(&self, path: &Path, id: &str) -> Result<Option<Outline>, StorageError> {
        let closing = batches::last(&self.last);
        if closing.is_none() && !is_end(&self.last) {
            return Ok(None);
        }
        let checksum = Checksum::of(HEAD.matches(&self.beginning), path)?;
        // The last line ends with a comma, which a closing brace replaces.
        let lines = self.beginning.strip_suffix(b",\n").unwrap_or_default();
        let Ok(mut fields) = serde_json::from_slice::<Fields>(&[lines, b"}"].concat()) else {
            return Ok(None);
        };
        check_kind(&fields.format, fields.version, path)?;
        checksum.check(fields.version, path)?;
        check_id(&fields.id, id, path)?;
        let document = self.last.split_last().and_then(|(_, last)| WHOLE.digits(last));
        // The closing line of the last batch is newer than the fields of the document.
        let (chain, state_bytes) = match closing {
            Some(_) if fields.version < VERSION => return Ok(None),
            Some(closing) => {
                fields.revision = closing.revision;
                fields.updated_at = closing.updated_at;
                fields.message_count = closing.message_count;
                (Some(closing.chain), closing.state_bytes)
            }
            None => (document.map(str::to_owned), 0),
        };
        let tip = chain.filter(|_| fields.version == VERSION).map(|chain| Tip {
            length: self.length,
            message_count: fields.message_count,
            state_bytes,
            chain,
        });
        let summary = SessionSummary {
            id: fields.id,
            message_count: fields.message_count,
            created_at: fields.created_at,
            updated_at: fields.updated_at,
            damage: None,
        };
        Ok(Some(Outline { summary, revision: SessionRevision::new(fields.revision), tip }))
    }
}
