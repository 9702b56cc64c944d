//! Inputs that contain their cuts, so that the fuzzer finds both the bytes and the cuts.

use bytes::Bytes;

/// Bytes, and the pieces in which a connection delivers them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut<'a> {
    /// All bytes.
    pub(crate) whole: &'a [u8],
    seed: u8,
}

impl<'a> Cut<'a> {
    /// Parses an input. Its first byte defines how the other bytes are cut.
    pub(crate) fn new(input: &'a [u8]) -> Self {
        match input {
            [seed, whole @ ..] => Self { whole, seed: *seed },
            [] => Self { whole: input, seed: 0 },
        }
    }

    /// Returns the pieces, which are single bytes, pieces of one size, two halves, or pieces of many sizes.
    pub(crate) fn pieces(self) -> Vec<Bytes> {
        let mut rest = self.whole;
        let mut size = usize::from(self.seed >> 2);
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            size = match self.seed % 4 {
                0 => 1,
                1 => size,
                2 if pieces.is_empty() => self.whole.len() * size / 64,
                2 => rest.len(),
                // Any sequence of small numbers is sufficient.
                _ => (size * 7 + 3) % 61,
            };
            let (piece, after) = rest.split_at(size.clamp(1, rest.len()));
            pieces.push(Bytes::copy_from_slice(piece));
            rest = after;
        }
        pieces
    }
}
