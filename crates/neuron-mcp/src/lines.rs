//! Messages as lines of JSON on two streams (MCP specification, "Transports", stdio): one a line, in bounded
//! memory. For both sides.

mod reader;
mod writer;

pub(crate) use self::reader::{END_BYTES, LineReader, Piece};
pub(crate) use self::writer::{LineWriter, Waiting};
