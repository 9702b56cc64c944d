//! Runs one example of the README or the guide. `build.rs` extracts the text of the examples. `tests/readme.rs` starts
//! this program and checks its output.
//!
//! An example with a `main` function runs unchanged, except for the additions of `build.rs`. For any other example, the
//! module with its name defines the variables that the page does not define.

#[cfg(target_os = "linux")]
mod in_production;

mod control;
mod mcp;
mod runs_that_survive_a_crash;
mod telemetry;
mod tools_and_long_conversations;

use std::error::Error;
use std::process::ExitCode;

/// Defines a module for an example that has a `main` function.
macro_rules! program {
    ($module:ident, $file:literal) => {
        mod $module {
            include!(concat!(env!("OUT_DIR"), "/", $file));

            pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
                main()
            }
        }
    };
}

program!(an_agent, "an-agent.rs");
program!(providers_anthropic, "providers-anthropic.rs");
program!(providers_ollama, "providers-ollama.rs");
program!(providers_openai, "providers-openai.rs");
program!(tests_without_a_model, "tests-without-a-model.rs");

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let result = match name.as_str() {
        "an-agent" => an_agent::run(),
        "control" => control::run(),
        #[cfg(target_os = "linux")]
        "in-production" => in_production::run(),
        "mcp" => mcp::run(),
        "providers-anthropic" => providers_anthropic::run(),
        "providers-ollama" => providers_ollama::run(),
        "providers-openai" => providers_openai::run(),
        "runs-that-survive-a-crash" => runs_that_survive_a_crash::run(),
        "telemetry" => telemetry::run(),
        "tests-without-a-model" => tests_without_a_model::run(),
        "tools-and-long-conversations" => tools_and_long_conversations::run(),
        _ => Err(format!("there is no example `{name}`").into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the URL of the loopback server that replaces the vendor's server.
fn server() -> Result<String, Box<dyn Error>> {
    Ok(std::env::var("README_SERVER")?)
}
