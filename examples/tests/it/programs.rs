//! Runs every example program against servers with scripted replies, and compares its output with `output/NAME.txt`,
//! which the book shows.
//!
//! With the environment variable `UPDATE_OUTPUT=1`, the tests write the files instead.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use neuron_example_programs::{Example, VARIABLE, examples};

/// Defines a test for each program.
macro_rules! programs {
    ($($name:ident)*) => {
        /// Names of the programs with a test.
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() {
                check(stringify!($name)).await;
            }
        )*
    };
}

include!("../../src/names.rs");

#[test]
fn every_program_has_a_test() {
    let names: Vec<&str> = examples().iter().map(|example| example.name).collect();
    assert_eq!(names, TESTED);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            name == "main" || names.contains(&&*name),
            "{name} is not in the list of the examples"
        );
    }
}

/// Rust prints the error of `main` with its `Debug` format. The format of most errors is not a sentence.
#[test]
fn every_program_prints_its_error_as_text() {
    for Example { name, .. } in examples() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.rs"));
        let source = std::fs::read_to_string(file).unwrap();
        let main = source.lines().find(|line| line.contains("fn main()")).unwrap();
        let returned = main.split_once("fn main() ").unwrap().1;
        assert!(["-> Result<(), MainError> {", "{"].contains(&returned), "{name}: {main}");
    }
}

#[test]
fn program_without_a_key_prints_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-programs"));
    command.env(VARIABLE, "first_agent").env_remove("ANTHROPIC_API_KEY").current_dir(&folder);
    let output = command.output().unwrap();
    let words = "Error: authentication failed: ANTHROPIC_API_KEY is not set: export it, or pass a key to \
                 Anthropic::new\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), words);
    assert!(!output.status.success());
}

/// Runs a program in an empty folder. Panics if it fails, if its output differs from the file, or if it does not request
/// every reply of the script.
async fn check(name: &str) {
    let all = examples();
    let example = all.iter().find(|example| example.name == name).unwrap();
    let servers = example.start_servers(|_| false).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-programs"));
    command.env(VARIABLE, name);
    for name in
        ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OLLAMA_API_KEY", "OLLAMA_HOST"]
    {
        command.env_remove(name);
    }
    command.current_dir(&folder).envs(servers.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = example.input;
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        // A program that does not read its input may end before all of it is written.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    })
    .await
    .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    if let Some(reason) = stdout.strip_prefix("no sandbox: ") {
        println!("not checked: {name} ({})", reason.trim());
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!is_ci, "with CI=true {name} must be checked: {reason}");
        return;
    }
    servers.assert_complete();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("output/{name}.txt"));
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(&file, &stdout).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(stdout, expected, "{} differs: set UPDATE_OUTPUT=1 to write it", file.display());
}
