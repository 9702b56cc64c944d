//! Thousands of agents in one process against a server in another process, compared with clients without agents.
//!
//! A measurement has two processes, connected like a pipe in a shell. The server sends its URL and the number of
//! requests to the client process, and the client process sends us the result. Each measurement has its own processes,
//! because the peak memory of a process is a single number.

mod clients;
mod part;
mod usage;

mod run;

pub use clients::{Case, Client, Clients, script};
pub use part::play;
pub use run::{Measured, Run, check_open_files};
