//! Programs around the macros: those in `pass` compile and run, those in `fail` are refused, with the
//! words beside them. After a change, `TRYBUILD=overwrite cargo test -p neuron-tool-macros --test
//! compile` writes them anew.

use std::process::Command;

/// The compiler whose words are in `fail/*.stderr`: other versions say some things differently.
const PINNED: &str = "rustc 1.95.";

#[test]
fn programs_compile_or_are_refused_at_the_right_place() {
    let programs = trybuild::TestCases::new();
    programs.pass("tests/pass/*.rs");
    let compiler = compiler();
    if compiler.starts_with(PINNED) {
        programs.compile_fail("tests/fail/*.rs");
    } else {
        println!("the words of errors are not checked: this is {compiler}, they are {PINNED}x's");
    }
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
