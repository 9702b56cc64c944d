//! The length of a value as JSON, without creating the JSON text.

use std::io;

use serde::Serialize;

/// Returns the number of bytes of a value as JSON. Used as an estimate of the value's memory. Returns `usize::MAX` if
/// the value cannot be serialised.
pub(crate) fn json_length(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// A writer that counts the bytes and discards them.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
