//! Databases as their users meet them: real files, several connections, several processes.

mod errors;
mod killed;
mod migrations;
mod opening;
mod space;
mod support;
mod transactions;
