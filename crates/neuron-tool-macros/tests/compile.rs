//! Compile tests. Programs in `pass` compile and run. Programs in `fail` are rejected with the errors in the files next
//! to them. To update the files, run `TRYBUILD=overwrite cargo test -p neuron-tool-macros --test compile`.

use std::process::Command;

/// The compiler version of `fail/*.stderr`. The messages of other versions differ.
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
