//! The fields of a session's file without its messages.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{SessionRevision, SessionSummary, StorageError};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::checksum::{HEAD, WHOLE};
use super::document::{
    Checksum, END_LENGTH, Kind, MESSAGES, check_count, check_id, check_kind, corrupt, is_end,
};
use super::files::open;
use super::path_error::naming;

/// Maximum length of the beginning of a file that is read alone.
const LONGEST_BEGINNING: u64 = 1 << 20;

/// A session without its messages.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) summary: SessionSummary,
    pub(super) revision: SessionRevision,
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
    /// Missing where only the beginning was read.
    messages: Option<Count>,
}

/// Reads the outline of a session's file. `None` if there is no file.
///
/// Of a file that is as we write it, only the beginning and the last bytes are read; any other is read
/// to its end.
pub(super) fn read(path: &Path, id: &str) -> Result<Option<Outline>, StorageError> {
    let Some(mut file) = open(path)? else {
        return Ok(None);
    };
    let (checksum, fields) = match beginning(&mut file).map_err(naming("read", path))? {
        Some(lines) => {
            let checksum = Checksum::of(HEAD.matches(&lines), path)?;
            match serde_json::from_slice(&as_object(lines)) {
                Ok(fields) => (checksum, fields),
                Err(_) => whole(&mut file, path)?,
            }
        }
        None => whole(&mut file, path)?,
    };
    check_kind(&fields.format, fields.version, path)?;
    checksum.check(fields.version, path)?;
    check_id(&fields.id, id, path)?;
    if let Some(Count(counted)) = fields.messages {
        check_count(fields.message_count, counted, path)?;
    }
    let summary = SessionSummary {
        id: fields.id,
        message_count: fields.message_count,
        created_at: fields.created_at,
        updated_at: fields.updated_at,
        damage: None,
    };
    Ok(Some(Outline { summary, revision: SessionRevision::new(fields.revision) }))
}

/// Reads the fields from the whole file.
fn whole(file: &mut File, path: &Path) -> Result<(Checksum, Fields), StorageError> {
    let mut json = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut json)).map_err(naming("read", path))?;
    let checksum = Checksum::of(WHOLE.matches(&json), path)?;
    let error = match serde_json::from_slice(&json) {
        Ok(fields) => return Ok((checksum, fields)),
        Err(error) => error,
    };
    // A newer version may have other fields.
    if let Ok(Kind { format, version }) = serde_json::from_slice(&json) {
        check_kind(&format, version, path)?;
    }
    Err(corrupt(path, error.to_string()))
}

/// Reads the lines before the messages, if the file has the lines that we write, and its end.
fn beginning(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    let mut json = Vec::new();
    let mut lines = BufReader::new(&mut *file).take(LONGEST_BEGINNING);
    loop {
        let start = json.len();
        if lines.read_until(b'\n', &mut json)? == 0 {
            return Ok(None);
        }
        if json.get(start..) == Some(MESSAGES.as_bytes()) {
            json.truncate(start);
            break;
        }
    }
    file.seek(SeekFrom::Start(length.saturating_sub(END_LENGTH as u64)))?;
    let mut last = Vec::new();
    file.read_to_end(&mut last)?;
    Ok((is_end(&last) && json.ends_with(b",\n")).then_some(json))
}

/// Makes an object of the lines before the messages, which end with a comma.
fn as_object(mut lines: Vec<u8>) -> Vec<u8> {
    lines.truncate(lines.len().saturating_sub(2));
    lines.push(b'}');
    lines
}

/// Number of elements of a sequence, none of which is built.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;

        impl<'de> Visitor<'de> for Counter {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while items.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        deserializer.deserialize_seq(Counter)
    }
}
