//! The HTTP layer of every loopback server. This layer accepts connections, records requests, and splits or breaks
//! responses. It is independent of the vendors' formats.

mod body;
mod plan;
mod raw;
mod record;
mod reply;
mod server;
mod sse;
mod wire;

pub(crate) use plan::{Plan, Step};
pub(crate) use server::LoopbackServer;

pub(crate) use reply::Source;

pub use raw::{RawConnection, RawServer};
pub use record::RecordedRequest;
pub use reply::ServerReply;
pub use wire::Wire;
