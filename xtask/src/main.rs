//! The workspace's chores behind `cargo xtask`: reads the command line, nothing more.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod api;
mod compiler;
mod conventions;
mod debian;
mod engines;
mod examples;
mod faults;
mod fetched;
#[cfg(test)]
mod house;
mod mcp;
mod means;
mod npm;
mod postgres;
mod process;
mod python;
mod sdks;
mod suite;
mod tally;
mod wasm;
mod workspace;

use std::process::ExitCode;

use crate::tally::Tally;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  test   everything a change has to pass: fmt, clippy, docs, wasm, examples, sdks, tests,
         faults
  e2e    the step sdks alone: the vendors' official clients judge our servers and requests
  faults the step faults alone: deliberate faults in the loop, which its model has to find;
         `cargo xtask faults limit` tries those with `limit` in their names
  engines
         fetches the servers of the durable engines and prints where they are;
         `cargo xtask engines restate` and `… temporal` do it for one
  mcp    fetches what MCP is tested with, the conformance suite, servers and a client, and prints
         where the programs are that run them; `cargo xtask mcp node` and `… python` do it for one
  conventions FOLDER
         takes the facts that neuron-otel's tests need out of OpenTelemetry's definitions
  api    rewrites crates/*/api.txt, the listings of the public surface
  help   prints this text";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["test"] => suite::run(),
        ["e2e"] => exit_code(sdks::check(&mut Tally::default())),
        ["faults"] => exit_code(faults::check(None)),
        ["faults", text] => exit_code(faults::check(Some(text))),
        ["engines"] => exit_code(fetched::print(&engines::ENGINES, None)),
        ["engines", name] => exit_code(fetched::print(&engines::ENGINES, Some(name))),
        ["mcp"] => exit_code(fetched::print(&mcp::PEERS, None)),
        ["mcp", name] => exit_code(fetched::print(&mcp::PEERS, Some(name))),
        ["conventions", folder] => exit_code(conventions::write(folder)),
        ["api"] => exit_code(api::rewrite()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        [] => usage_error("no command given"),
        [command @ ("test" | "e2e" | "api" | "help"), ..] => {
            usage_error(&format!("`{command}` takes no arguments"))
        }
        ["faults" | "engines" | "mcp", ..] => usage_error("one argument at most"),
        ["conventions", ..] => usage_error("`conventions` takes one folder"),
        [command, ..] => usage_error(&format!("unknown command `{command}`")),
    }
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn usage_error(reason: &str) -> ExitCode {
    eprintln!("error: {reason}\n\n{USAGE}");
    ExitCode::from(2)
}
