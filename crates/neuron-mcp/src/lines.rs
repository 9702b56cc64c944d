//! Reading and writing of JSON messages, each on one line (MCP specification, "Transports", stdio). Used by client and
//! server. Memory is bounded.

mod reader;
mod writer;

pub(crate) use self::reader::{END_BYTES, LineReader, Piece};
pub(crate) use self::writer::{LineWriter, Waiting};
