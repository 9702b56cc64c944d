//! Connections, clients and streams, tested with loopback servers.

mod clients;
mod idle_connections;
mod proxies;
mod rate_limits;
mod streams;
