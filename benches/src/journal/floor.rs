//! The floor of a journal, which appends the bytes of a record to a file and calls `fdatasync`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A file to which records are appended. It has no runs, no steps and no checks.
#[derive(Debug)]
pub struct Floor {
    file: File,
}

impl Floor {
    /// Creates the file in a folder.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn new(folder: &Path) -> io::Result<Self> {
        File::create(folder.join("floor")).map(|file| Self { file })
    }

    /// Appends a record and waits until it is on the disk. Returns the duration.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn append(&mut self, record: &[u8]) -> io::Result<Duration> {
        let start = Instant::now();
        self.file.write_all(record)?;
        self.file.sync_data()?;
        Ok(start.elapsed())
    }
}
