//! Reading and writing of JSON messages as lines on two streams (MCP specification, "Transports", stdio). Client and
//! server use the same types. The memory that these types use is bounded.

mod reader;
mod writer;

pub(crate) use self::reader::{END_BYTES, LineReader, Piece};
pub(crate) use self::writer::{LineWriter, Waiting};
