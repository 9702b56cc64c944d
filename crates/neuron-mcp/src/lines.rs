//! Messages as lines of JSON on two streams (MCP specification, "Transports", stdio), in bounded memory, for client
//! and server.

mod reader;
mod writer;

pub(crate) use self::reader::{END_BYTES, LineReader, Piece};
pub(crate) use self::writer::{LineWriter, Waiting};
