//! Connections, clients and streams, tested with loopback servers.

mod clients;
mod encodings;
mod http2;
mod idle_connections;
mod proxies;
mod rate_limits;
mod streams;
mod wrong_urls;
