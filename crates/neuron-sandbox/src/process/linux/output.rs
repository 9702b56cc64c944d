//! Captures the output of a program up to a limit. The rest is read and counted, because a program blocks if nobody
//! reads its output.

use std::io;

/// The captured standard output or standard error of a program.
pub(super) struct Captured {
    /// Maximum number of bytes that are stored.
    limit: usize,
    pub(super) bytes: Vec<u8>,
    /// Number of bytes that the program wrote above the limit, which were discarded.
    pub(super) dropped: u64,
}

impl Captured {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), dropped: 0 }
    }

    /// Reads the bytes that are available without blocking, about `most` bytes. Returns `false` at the end of the
    /// output.
    pub(super) fn read(&mut self, mut from: impl io::Read, most: usize) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0_usize;
        while taken < most {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.take(buffer.get(..count).unwrap_or_default());
                    taken = taken.saturating_add(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Stores bytes up to the limit, and counts the excess.
    fn take(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_sub(self.bytes.len()).min(bytes.len());
        let (kept, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.bytes.extend_from_slice(kept);
        self.dropped = self.dropped.saturating_add(rest.len() as u64);
    }
}
