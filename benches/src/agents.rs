//! Thousands of agents in one process against a server in another, beside clients that are no agents.
//!
//! A measurement is two processes in a row, as in a shell's pipe: the server tells whoever asks it
//! where it is and how many requests came, and that one tells us what it took. Each measurement has
//! processes of its own, because the most memory that a process ever had is one number.

mod clients;
mod part;
mod usage;

mod run;

pub use clients::{Case, Client, Clients, script};
pub use part::play;
pub use run::{Measured, Run, check_open_files};
