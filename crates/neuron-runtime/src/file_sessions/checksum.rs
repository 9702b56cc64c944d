//! Computes and verifies the checksums in a session's file. Each checksum covers bytes that precede its digits.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Number of hexadecimal digits of a SHA-256 checksum.
const DIGITS: usize = 64;

/// Form of a text with a checksum. It consists of the fixed texts before and after the digits.
pub(super) struct ChecksumLine {
    before: &'static str,
    after: &'static str,
}

/// Form of the line `head_checksum`. Its checksum covers the fields before a document's messages. The fields can
/// therefore be verified without the messages.
pub(super) const HEAD: ChecksumLine =
    ChecksumLine { before: "  \"head_checksum\": \"", after: "\",\n" };

/// Form of the last line of a document, with the closing brace. Its checksum covers the whole document before it.
pub(super) const WHOLE: ChecksumLine =
    ChecksumLine { before: "  \"checksum\": \"", after: "\"\n}" };

/// Form of the checksum in the line that closes a batch. It covers all batches so far.
pub(super) const CHAIN: ChecksumLine = ChecksumLine { before: ",\"chain\":\"", after: "\"" };

/// Form of the checksum at the end of the line that closes a batch. It covers only this line.
pub(super) const LINE: ChecksumLine = ChecksumLine { before: ",\"checksum\":\"", after: "\"}" };

impl ChecksumLine {
    /// Returns the length in bytes of a checksum line of this form.
    pub(super) const fn len(&self) -> usize {
        self.before.len() + DIGITS + self.after.len()
    }

    /// Appends a checksum line to the bytes that it covers.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let line = self.covering(out);
        out.extend_from_slice(line.as_bytes());
    }

    /// Returns `true` if the bytes start with the fixed text that precedes the digits of the checksum.
    pub(super) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.before.as_bytes())
    }

    /// Returns the checksum from the line at the end of `bytes`. Returns `None` if the bytes do not end with a line of
    /// this form.
    pub(super) fn digits<'b>(&self, bytes: &'b [u8]) -> Option<&'b str> {
        let line = bytes.get(self.split(bytes)?.len()..)?;
        let digits = line.get(self.before.len()..line.len() - self.after.len())?;
        std::str::from_utf8(digits).ok()
    }

    /// Returns `bytes` without the checksum line at their end, and does not verify the checksum. Returns `None` if the
    /// bytes do not end with a line of this form.
    pub(super) fn split<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (covered, line) = bytes.split_at_checked(bytes.len().checked_sub(self.len())?)?;
        let has_form =
            line.starts_with(self.before.as_bytes()) && line.ends_with(self.after.as_bytes());
        has_form.then_some(covered)
    }

    /// Verifies the checksum line at the end of `bytes`. Returns `None` if the bytes do not end with a line of this
    /// form.
    pub(super) fn matches(&self, bytes: &[u8]) -> Option<bool> {
        let covered = self.split(bytes)?;
        Some(bytes.ends_with(self.covering(covered).as_bytes()))
    }

    /// Returns a checksum line of this form for the given bytes.
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
