//! Databases as their users meet them: real files, several connections, several processes.

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
