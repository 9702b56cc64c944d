//! HTTP for every loopback server. It accepts connections, records requests, and splits or breaks responses. It does
//! not depend on a vendor.

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
