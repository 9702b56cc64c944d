//! Measures thousands of agents in one process that call a server in another process, compared with clients without
//! agents.
//!
//! A measurement has two child processes. The standard output of the server process is the standard input of the client
//! process. The server process writes its URL and the number of received requests, and the client process writes the
//! result to us. Each measurement starts new processes, because the peak memory of a process never decreases.

mod clients;
mod part;
mod usage;

mod run;

pub use clients::{Case, Client, Clients, script};
pub use part::play;
pub use run::{Measured, Run, check_open_files};
