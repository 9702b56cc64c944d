//! The storage against the public suite, against processes that are killed or write beside each other,
//! and against damaged files.

mod backup;
mod conformance;
mod cost;
mod damage;
mod killed;
mod processes;
mod rows;
mod support;
mod trials;
mod versions;
