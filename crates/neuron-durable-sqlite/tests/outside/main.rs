//! The journal seen from outside: by those who drive runs, kill them, look at them, and damage their files.

mod backup;
mod changed_agent;
mod conformance;
mod crash;
mod damage;
#[cfg(unix)]
mod full;
mod killed;
mod lock;
mod many;
mod refused;
mod size;
mod support;
