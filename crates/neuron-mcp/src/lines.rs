//! Messages as lines of JSON on two streams (MCP specification, "Transports", stdio), in bounded memory. Client and
//! server use them.

mod reader;
mod writer;

pub(crate) use self::reader::{END_BYTES, LineReader, Piece};
pub(crate) use self::writer::{LineWriter, Waiting};
