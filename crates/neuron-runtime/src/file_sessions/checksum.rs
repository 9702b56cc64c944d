//! Checksum lines in a session's file, each of which covers all bytes before it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Length of SHA-256 in hexadecimal digits.
const DIGITS: usize = 64;

/// A line with a checksum.
pub(super) struct ChecksumLine {
    before: &'static str,
    after: &'static str,
}

/// The line before the messages. It covers the fields, so that they can be checked without the messages.
pub(super) const HEAD: ChecksumLine =
    ChecksumLine { before: "  \"head_checksum\": \"", after: "\",\n" };

/// The line at the end of the document, with the brace after it. It covers the whole document.
pub(super) const WHOLE: ChecksumLine =
    ChecksumLine { before: "  \"checksum\": \"", after: "\"\n}" };

/// The checksum of all batches so far, in the line that closes a batch.
pub(super) const CHAIN: ChecksumLine = ChecksumLine { before: ",\"chain\":\"", after: "\"" };

/// The end of a closing line. It covers the line.
pub(super) const LINE: ChecksumLine = ChecksumLine { before: ",\"checksum\":\"", after: "\"}" };

impl ChecksumLine {
    pub(super) const fn len(&self) -> usize {
        self.before.len() + DIGITS + self.after.len()
    }

    /// Adds the line to the bytes that it covers.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let line = self.covering(out);
        out.extend_from_slice(line.as_bytes());
    }

    /// Returns `true` if the bytes begin like the line.
    pub(super) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.before.as_bytes())
    }

    /// Returns the digits at the end of the bytes.
    pub(super) fn digits<'b>(&self, bytes: &'b [u8]) -> Option<&'b str> {
        let line = bytes.get(self.split(bytes)?.len()..)?;
        let digits = line.get(self.before.len()..line.len() - self.after.len())?;
        std::str::from_utf8(digits).ok()
    }

    /// Returns the bytes before the line. `None` if the bytes do not end in a line of this form, whatever its
    /// digits are.
    pub(super) fn split<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (covered, line) = bytes.split_at_checked(bytes.len().checked_sub(self.len())?)?;
        let has_form =
            line.starts_with(self.before.as_bytes()) && line.ends_with(self.after.as_bytes());
        has_form.then_some(covered)
    }

    /// Returns `true` if the bytes end in this line and are as they were written. `None` if they do not end in a
    /// line of this form.
    pub(super) fn matches(&self, bytes: &[u8]) -> Option<bool> {
        let covered = self.split(bytes)?;
        Some(bytes.ends_with(self.covering(covered).as_bytes()))
    }

    fn covering(&self, bytes: &[u8]) -> String {
        let mut line = String::with_capacity(self.len());
        line.push_str(self.before);
        for byte in Sha256::digest(bytes) {
            // Writing to a string does not fail.
            let _ = write!(line, "{byte:02x}");
        }
        line.push_str(self.after);
        line
    }
}
