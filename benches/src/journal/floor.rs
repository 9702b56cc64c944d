//! The floor of a journal: the bytes of a record at the end of a file, and `fdatasync`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A file to which records are appended. It knows no runs, no steps and no checks.
#[derive(Debug)]
pub struct Floor {
    file: File,
}

impl Floor {
    /// Creates the file in a folder.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn new(folder: &Path) -> io::Result<Self> {
        File::create(folder.join("floor")).map(|file| Self { file })
    }

    /// Appends a record and waits until the disk has it; returns how long that took.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn append(&mut self, record: &[u8]) -> io::Result<Duration> {
        let start = Instant::now();
        self.file.write_all(record)?;
        self.file.sync_data()?;
        Ok(start.elapsed())
    }
}
