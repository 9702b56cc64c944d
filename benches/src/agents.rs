//! Measures thousands of agents in one process, compared with other clients. The agents call a server in another
//! process.
//!
//! Each measurement starts a server process and a client process. New processes are needed because the peak memory of a
//! process never decreases. The server process writes its URL and the number of received requests to the standard input
//! of the client process. The client process writes the result to its standard output.

mod clients;
mod part;
pub mod usage;

mod run;

pub use clients::{Case, Client, Clients, script};
pub use part::play;
pub use run::{Measured, Run, check_open_files};
