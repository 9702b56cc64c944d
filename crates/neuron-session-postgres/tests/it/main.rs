//! Tests of the storage with a real PostgreSQL server, which the tests start.
#![cfg(unix)]

mod support;

mod conformance;
mod connections;
mod contents;
mod crashes;
mod drops;
mod schema;
