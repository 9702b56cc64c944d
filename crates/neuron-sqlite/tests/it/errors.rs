//! Tests of the conversion of database errors into storage errors.

use std::error::Error as _;
use std::io;

use neuron_sqlite::SqliteError;
use neuron_sqlite::rusqlite::{self, ffi};
use neuron_types::StorageError;

/// Returns SQLite's error with this code and SQLite's text for it.
fn failed(code: i32) -> rusqlite::Error {
    let words = ffi::code_to_str(code).to_owned();
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(words))
}

fn told(code: i32) -> StorageError {
    SqliteError::new("s.db".as_ref(), failed(code)).into()
}

#[track_caller]
fn is_io(error: StorageError, kind: io::ErrorKind, words: &str) {
    let StorageError::Io(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), kind);
    assert_eq!(error.to_string(), words);
    assert!(error.get_ref().is_some_and(|source| source.is::<SqliteError>()), "{error:?}");
}

#[test]
fn file_system_errors_become_io_errors() {
    is_io(told(ffi::SQLITE_FULL), io::ErrorKind::StorageFull, "there is no room left for s.db");
    is_io(told(ffi::SQLITE_READONLY), io::ErrorKind::PermissionDenied, "s.db is read-only");
    is_io(told(ffi::SQLITE_IOERR_WRITE), io::ErrorKind::Other, "s.db: disk I/O error");
    is_io(told(ffi::SQLITE_CANTOPEN), io::ErrorKind::Other, "s.db: unable to open database file");
    let source = io::Error::new(io::ErrorKind::NotFound, "not there");
    let error = SqliteError::Io { path: "s.db".into(), source };
    is_io(error.into(), io::ErrorKind::NotFound, "s.db: not there");
}

#[test]
fn damage_becomes_a_corrupt_error() {
    let words =
        "s.db is not a whole session: database disk image is malformed; it is left as it is";
    for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_CORRUPT_INDEX] {
        let error = told(code);
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
        assert_eq!(error.to_string(), words);
    }
    assert!(matches!(told(ffi::SQLITE_NOTADB), StorageError::Corrupt { .. }));
    let error = rusqlite::Error::InvalidColumnType(0, "body".into(), rusqlite::types::Type::Null);
    let error = SqliteError::new("s.db".as_ref(), error);
    assert!(error.source().is_some());
    assert!(matches!(StorageError::from(error), StorageError::Corrupt { .. }));
}

#[test]
fn other_errors_keep_their_source() {
    for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_MISUSE] {
        let StorageError::Other(error) = told(code) else { panic!("{code}") };
        let error = error.downcast::<SqliteError>().unwrap();
        assert_eq!(error.is_retryable(), code != ffi::SQLITE_MISUSE);
        assert!(error.source().is_some_and(|source| source.is::<rusqlite::Error>()));
    }
}
