//! What a file says of its session, without building the messages.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use chrono::{DateTime, Utc};
use neuron_types::{SessionRevision, SessionSummary, StorageError};
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::document::{END, Kind, MESSAGES, check_count, check_id, check_kind, corrupt};
use super::files::open;
use super::path_error::naming;

/// How long the beginning of a file may be that is read for itself.
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

/// Reads the outline of a session's file; none when there is no file.
///
/// Of a file that is as we write it, only the beginning and the last bytes are read; any other is read
/// to its end.
pub(super) fn read(path: &Path, id: &str) -> Result<Option<Outline>, StorageError> {
    let Some(mut file) = open(path)? else {
        return Ok(None);
    };
    let beginning = beginning(&mut file).map_err(naming("read", path))?;
    let fields = match beginning.and_then(|json| serde_json::from_slice(&json).ok()) {
        Some(fields) => fields,
        None => whole(&mut file, path)?,
    };
    check_kind(&fields.format, fields.version, path)?;
    check_id(&fields.id, id, path)?;
    if let Some(Count(counted)) = fields.messages {
        check_count(fields.message_count, counted, path)?;
    }
    let summary = SessionSummary {
        id: fields.id,
        message_count: fields.message_count,
        created_at: fields.created_at,
        updated_at: fields.updated_at,
    };
    Ok(Some(Outline { summary, revision: SessionRevision::new(fields.revision) }))
}

/// Reads the fields from the whole file.
fn whole(file: &mut File, path: &Path) -> Result<Fields, StorageError> {
    let error = match parse(file).map_err(naming("read", path))? {
        Ok(fields) => return Ok(fields),
        Err(error) => error,
    };
    // A newer version may have other fields.
    if let Ok(Kind { format, version }) = parse(file).map_err(naming("read", path))? {
        check_kind(&format, version, path)?;
    }
    Err(corrupt(path, error.to_string()))
}

fn parse<T: DeserializeOwned>(file: &mut File) -> io::Result<serde_json::Result<T>> {
    file.rewind()?;
    match serde_json::from_reader(BufReader::new(file)) {
        Err(error) if error.is_io() => Err(error.into()),
        parsed => Ok(parsed),
    }
}

/// The fields before the messages, as JSON, if the file has the lines that we write, and its end.
fn beginning(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    let Some(end) = length.checked_sub(END.len() as u64) else {
        return Ok(None);
    };
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
    file.seek(SeekFrom::Start(end))?;
    let mut last = Vec::new();
    file.read_to_end(&mut last)?;
    if last != END.as_bytes() || !json.ends_with(b",\n") {
        return Ok(None);
    }
    json.truncate(json.len() - 2);
    json.push(b'}');
    Ok(Some(json))
}

/// How many elements a sequence has. None of them is built.
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
