//! The HTTP under every loopback server: connections, records of requests, and answers that come
//! in pieces or break. It knows no vendor.

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
