//! A child process of the benchmark `many_agents`. Its arguments select the server or the clients.

use std::process::ExitCode;

fn main() -> ExitCode {
    neuron_benches::agents::play()
}
