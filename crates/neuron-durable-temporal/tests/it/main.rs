//! Tests with runs on a real Temporal server.

mod host;

mod basics;
mod boundaries;
mod changed;
mod crash;
mod long;
mod lost;
mod nested;
mod operating;
mod paused;
mod replay_log;
mod signals;
mod suite;
mod versions;
