//! Connections, clients and streams, over loopback servers.

mod clients;
mod idle_connections;
mod proxies;
mod streams;
