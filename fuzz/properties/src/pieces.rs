//! [`Cut`], which cuts an input into pieces. The first byte of the input defines how, so a fuzzer varies both the bytes
//! and the cuts.

use bytes::Bytes;

/// The bytes of an input, and the way in which a connection delivers them in pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut<'a> {
    /// All bytes except the first byte of the input.
    pub(crate) whole: &'a [u8],
    /// The first byte of the input. Its lowest two bits select the kind of cut, and the other bits the size of the
    /// pieces.
    seed: u8,
}

impl<'a> Cut<'a> {
    /// Splits an input into the byte that defines the cut and the other bytes.
    pub(crate) fn new(input: &'a [u8]) -> Self {
        match input {
            [seed, whole @ ..] => Self { whole, seed: *seed },
            [] => Self { whole: input, seed: 0 },
        }
    }

    /// Returns the bytes in pieces. Depending on the seed, these are single bytes, pieces of one size, two pieces, or
    /// pieces of varying sizes.
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
                // Any sequence of different small numbers is sufficient.
                _ => (size * 7 + 3) % 61,
            };
            let (piece, after) = rest.split_at(size.clamp(1, rest.len()));
            pieces.push(Bytes::copy_from_slice(piece));
            rest = after;
        }
        pieces
    }
}
