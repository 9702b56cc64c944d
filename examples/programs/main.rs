//! All programs of the book as one program, which takes much less time to link than each program alone.
//!
//! Each module here is complete: copy its file into a project of your own. `cargo run -p neuron-examples -- NAME` runs
//! one. Servers with scripted replies replace the vendors whose keys are not set.

#![expect(unreachable_pub, reason = "the programs are modules here, so each `main` is public")]

mod agent_version;
mod any_provider;
mod approval_later;
mod approval_prompt;
mod approval_wait;
mod budget;
mod budget_in_money;
mod cache_miss_detector;
mod cancel;
mod chat;
mod chat_session;
mod come_from_clients;
mod come_from_openai_agents;
mod come_from_pydantic_ai;
mod come_from_rig;
mod compatible_server;
mod continue_session;
mod custom_durable_engine;
mod custom_middleware;
mod custom_provider;
mod custom_storage;
mod custom_strategy;
mod deferred_tools;
mod dialects;
mod durable_run;
mod dynamic_tool;
mod evals;
mod fallback;
mod first_agent;
mod first_tool;
mod fork;
mod guardrails;
mod http_service;
mod image_and_pdf;
mod image_from_tool;
mod local_model;
mod long_conversation;
mod loop_detector;
mod low_level;
mod mcp_axum;
mod mcp_policy;
mod mcp_serve;
mod mcp_tools;
mod new_code;
mod own_http_client;
mod own_loop;
mod pool_agents;
mod rag;
mod restate_service;
mod retries;
mod routing;
mod run_pool;
mod sandboxed_shell;
mod sqlite_session;
mod steps;
mod streaming;
mod sub_agents;
mod sub_agents_from_code;
mod sub_agents_only;
mod summary_strategy;
mod telemetry;
mod telemetry_otlp;
mod tool_kinds;
mod tool_middleware;
mod typed_extraction;
mod unknown_outcome;

// The log of a program names its crate, which is the program alone in a project of your own.
macro_rules! module_path {
    () => {
        "tracing_log"
    };
}
mod tracing_log;

use std::error::Error;
use std::path::Path;
use std::process::{ExitCode, Termination as _};

use neuron_example_programs::{Example, VARIABLE, examples};
use tokio::process::Command;

macro_rules! programs {
    ($($name:ident)*) => {
        /// Runs the `main` of a program in this process.
        fn run(name: &str) -> ExitCode {
            match name {
                $(stringify!($name) => $name::main().report(),)*
                _ => unknown(name),
            }
        }
    };
}
include!("../src/names.rs");

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    // A program that starts itself again gives the variable and other arguments to the new process.
    if let Ok(name) = std::env::var(VARIABLE) {
        return run(&name);
    }
    let name = args.next().unwrap_or_default();
    // `mcp_tools` starts itself as a server. An MCP server does not get the environment of its client.
    if name == "serve" {
        return run("mcp_tools");
    }
    match examples().into_iter().find(|example| example.name == name) {
        Some(example) => start(&example, args).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }),
        None => unknown(&name),
    }
}

fn unknown(name: &str) -> ExitCode {
    eprintln!("error: there is no example `{name}`");
    ExitCode::from(2)
}

/// Starts a program as a process, in a folder of its own below the target folder.
#[tokio::main]
async fn start(
    example: &Example,
    args: impl Iterator<Item = String>,
) -> Result<ExitCode, Box<dyn Error>> {
    let servers = example.start_servers(|name| std::env::var_os(name).is_some()).await?;
    if !servers.variables.is_empty() {
        eprintln!("No key is set, so a local server sends scripted replies.\n");
    }
    // Only the program reacts to Ctrl-C. Its servers stay until it ends.
    tokio::spawn(tokio::signal::ctrl_c());
    let this = std::env::current_exe()?;
    let folder = this.parent().unwrap_or(Path::new(".")).join("example-files").join(example.name);
    std::fs::create_dir_all(&folder)?;
    let status = Command::new(this)
        .args(args)
        .env(VARIABLE, example.name)
        .envs(servers.variables.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .status()
        .await?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
