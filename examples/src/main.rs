//! Lists the example programs, or runs one of them.
//!
//! Servers with scripted replies replace the vendors whose keys are not set.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use neuron_examples::{Example, examples};
use tokio::process::Command;

#[tokio::main]
async fn main() -> ExitCode {
    let examples = examples();
    let Some(name) = std::env::args().nth(1) else {
        let width = examples.iter().map(|example| example.name.len()).max().unwrap_or_default();
        for example in examples {
            println!("{:width$}  {}", example.name, example.about());
        }
        println!("\nRun an example: cargo run -p neuron-examples -- NAME");
        return ExitCode::SUCCESS;
    };
    let Some(example) = examples.iter().find(|example| example.name == name) else {
        eprintln!("error: there is no example `{name}`: run without a name for the list");
        return ExitCode::from(2);
    };
    match run(example).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an example in a folder of its own below the target folder.
async fn run(example: &Example) -> Result<ExitCode, Box<dyn Error>> {
    let servers = example.start_servers(|name| std::env::var_os(name).is_some()).await?;
    if !servers.variables.is_empty() {
        eprintln!("No key is set, so a local server sends scripted replies.\n");
    }
    let this = std::env::current_exe()?;
    let folder = this.parent().unwrap_or(Path::new(".")).join("example-files").join(example.name);
    std::fs::create_dir_all(&folder)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // With the variables that cargo sets for this program, some build scripts would run again.
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&key);
        }
    }
    let status = command
        .args(["run", "--quiet", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .args(["--bin", example.name])
        .envs(servers.variables.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .status()
        .await?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
