//! Tests with real files, several connections and several processes.

mod backup;
mod errors;
mod groups;
mod killed;
mod migrations;
mod open_files;
mod opening;
mod space;
mod support;
mod transactions;
mod witness;
