//! A process of the benchmark `many_agents`: the server, or all that ask it.

use std::process::ExitCode;

fn main() -> ExitCode {
    neuron_benches::agents::play()
}
