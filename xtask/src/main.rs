//! Parses the command line of `cargo xtask`, and runs the command. Each command is implemented in a module.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod api;
mod book;
mod budget;
mod changes;
mod compiler;
mod driver;
mod examples;
mod faults;
mod fetch;
#[cfg(test)]
mod lints;
mod nextest;
mod packages;
mod prerequisites;
mod process;
mod sdks;
mod sizes;
mod suite;
mod tools;
mod wasm;
mod workspace;

use std::process::ExitCode;

use crate::faults::Selection;
use crate::suite::Steps;

pub(crate) const USAGE: &str = "\
usage: cargo xtask <command>

tiers:
  quick [BASE]  formatting, lints, and the tests of the packages that changed since the commit BASE
                and of their dependents. The default is the commit where the branch left the
                main branch. If nothing changed since then, the commits of the last 12 hours count.
  test [STEP]   everything that a change has to pass, as on CI, or one step of it. Steps are left
                out if nothing that they check changed; `test --all` runs them too.
  nightly [STEP]
                the long runs, or one of them: all deliberate faults, a million cases of the loop's
                model, fuzzing, hundreds of kills, each feature alone, each crate from its package

commands:
  api           rewrites crates/*/api.txt, the listings of the public surface
  book          builds the book in target/book, and prints the path of its first page
  charts        rewrites book/pictures/*.svg that show the figures of benches/README.md
  faults [TEXT] deliberate faults in the loop, or those with TEXT in their names
  fetch [NAME]  fetches the third-party programs that tests need, or one, and prints their paths
  help          prints this text
  sizes         prints the lines of code, the lines of the listing and the settings of each package";

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [rustc, ..] if driver::is_meant(rustc) => driver::compile(&args),
        ["quick"] => exit_code(suite::quick(None)),
        ["quick", base] => exit_code(suite::quick(Some(base))),
        ["test"] => suite::test(Steps::Affected),
        ["test", "--all"] => suite::test(Steps::All),
        ["test", step] => suite::test(Steps::Named(step)),
        ["nightly"] => suite::nightly(None),
        ["nightly", step] => suite::nightly(Some(step)),
        ["api"] => exit_code(api::rewrite()),
        ["book"] => exit_code(book::build().map(|page| println!("{}", page.display()))),
        ["charts"] => exit_code(book::rewrite_charts()),
        ["faults"] => exit_code(faults::check(Selection::All)),
        ["faults", text] => exit_code(faults::check(Selection::Named(text))),
        ["fetch"] => exit_code(fetch::print(None)),
        ["fetch", program] => exit_code(fetch::print(Some(program))),
        ["sizes"] => exit_code(sizes::print()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        [] => usage_error("no command given"),
        [command @ ("api" | "book" | "charts" | "help" | "sizes"), ..] => {
            usage_error(&format!("`{command}` takes no arguments"))
        }
        [command @ ("quick" | "test" | "nightly" | "faults" | "fetch"), ..] => {
            usage_error(&format!("`{command}` takes one argument at most"))
        }
        [command, ..] => usage_error(&format!("unknown command `{command}`")),
    }
}

/// Returns the exit code of a command. Prints the error to standard error if the command failed.
fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and the usage to standard error. Returns exit code 2.
fn usage_error(reason: &str) -> ExitCode {
    eprintln!("error: {reason}\n\n{USAGE}");
    ExitCode::from(2)
}
