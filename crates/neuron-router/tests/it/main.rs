//! Tests of routers, in one binary, which is linked only once.

mod cancellation;
mod choice;
mod deadline;
mod durable;
mod fallback;
mod faults;
mod hedge;
mod info;
mod metadata;
mod pauses;
mod requests;
mod shadow;
mod spans;
mod sticky;
mod streams;
mod support;
mod vendors;
mod wires;
