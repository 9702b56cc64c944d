//! The Rust part of the tests with the vendors' official clients. Starts the loopback servers for the clients, and
//! writes the requests of our providers to files that the clients check.
//!
//! The Python code in the parent folder is the other part. This file only parses the command line.

mod cases;
mod corpus;
mod pairs;
mod patterns;
mod requests;
mod serve;
mod vendor;

use std::process::ExitCode;

use crate::vendor::VENDORS;

/// Usage text for invalid arguments.
const USAGE: &str = "\
usage: neuron-e2e <command>

commands:
  serve <vendor>             starts a loopback server for each case, prints one line of JSON that
                             says where they are and what their replies mean, and ends when its
                             standard input does; fails if replies are left
  requests <vendor> <file>   writes what our provider sends for many requests, one line of JSON each
  pairs <folder> <first> <count>
                             moves random conversations between all wires, and writes the requests at
                             their ends, one file for each vendor; `first` is the first seed

vendors: anthropic, openai, gemini, bedrock, ollama";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let known = |name: &str| VENDORS.iter().find(|vendor| vendor.name == name);
    let result = match args.as_slice() {
        ["serve", name] => known(name).map(serve::run),
        ["requests", name, file] => known(name).map(|vendor| requests::run(vendor, file.as_ref())),
        ["pairs", folder, first, count] => match (first.parse(), count.parse()) {
            (Ok(first), Ok(count)) => Some(pairs::run(folder.as_ref(), first, count)),
            _ => None,
        },
        _ => None,
    };
    match result {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
