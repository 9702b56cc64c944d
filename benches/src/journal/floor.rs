//! The minimal code with which the journal is compared. It appends the bytes of an entry to a file and calls
//! `fdatasync`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A plain file to which entries are appended, for comparison with the journal. Unlike the journal, the file has no
/// runs, no steps and no checksums.
#[derive(Debug)]
pub struct Floor {
    file: File,
}

impl Floor {
    /// Creates the file in `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created.
    pub fn new(folder: &Path) -> io::Result<Self> {
        File::create(folder.join("floor")).map(|file| Self { file })
    }

    /// Appends an entry and waits until the entry is on the disk. Returns the time that this took.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn append(&mut self, record: &[u8]) -> io::Result<Duration> {
        let start = Instant::now();
        self.file.write_all(record)?;
        self.file.sync_data()?;
        Ok(start.elapsed())
    }
}
