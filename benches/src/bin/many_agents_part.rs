//! A process of the benchmark `many_agents`, which is the server or runs all clients.

use std::process::ExitCode;

fn main() -> ExitCode {
    neuron_benches::agents::play()
}
