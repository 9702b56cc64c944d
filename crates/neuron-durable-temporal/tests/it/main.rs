//! Runs on the real server of Temporal.

mod host;

mod basics;
mod boundaries;
mod changed;
mod crash;
mod long;
mod signals;
mod suite;
