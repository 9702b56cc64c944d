//! Helpers for the sandbox tests. They create folders and sandboxes, and run commands and attacks in a sandbox.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, process};

use neuron_sandbox::{CommandTool, Confined, ProcessSandbox, ProcessSandboxBuilder};
use neuron_types::{
    CommandOutput, Sandbox as _, SandboxError, ToolCommand, ToolContext, ToolDefinition, ToolError,
    ToolOutput,
};
use serde_json::json;

/// A temporary folder, which is deleted when the value is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sandbox-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Prints that `what` cannot be tested on this machine, with the reason. Panics if the environment variable `CI` is
/// `true`.
pub(crate) fn not_checked(what: &str, reason: &str) {
    println!("not checked: {what} ({reason})");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "with CI=true {what} must be checked: {reason}");
}

/// Builds a sandbox. Returns `None` if this machine cannot build it. Panics instead if the environment variable `CI` is
/// `true`.
pub(crate) fn build(builder: ProcessSandboxBuilder) -> Option<ProcessSandbox> {
    match builder.build() {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            not_checked("the process sandbox", &error.to_string());
            None
        }
    }
}

/// Creates the builder of a test's sandbox. Programs run in `folder`, and may run this test binary as the attacker.
///
/// Older kernels, which lack some restrictions, are accepted. A test of such a restriction must check
/// [`confinement`](ProcessSandbox::confinement).
pub(crate) fn builder(folder: &Folder) -> ProcessSandboxBuilder {
    let attacker = std::env::current_exe().unwrap();
    ProcessSandbox::builder(folder.path()).execute(attacker).accept_older_kernel()
}

/// A tool that runs the command that its function returns.
pub(crate) struct Runs<F>(pub(crate) F);

impl<F> CommandTool for Runs<F>
where
    F: Fn() -> Result<ToolCommand, ToolError> + Send + Sync,
{
    const NAME: &'static str = "runs";
    type Args = serde_json::Value;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: String::new(),
            input_schema: json!({}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn command(&self, _args: Self::Args, _ctx: &ToolContext) -> Result<ToolCommand, ToolError> {
        (self.0)()
    }

    fn output(&self, output: CommandOutput) -> Result<ToolOutput, ToolError> {
        Ok(output.to_tool_output())
    }
}

pub(crate) async fn run_in(
    sandbox: &ProcessSandbox,
    command: ToolCommand,
    ctx: &ToolContext,
) -> Result<ToolOutput, SandboxError> {
    let tool = Confined(Runs(move || Ok(command.clone())));
    sandbox.execute_tool(&tool, json!({}), ctx).await
}

pub(crate) async fn run(
    sandbox: &ProcessSandbox,
    command: ToolCommand,
) -> Result<ToolOutput, SandboxError> {
    run_in(sandbox, command, &ToolContext::default()).await
}

pub(crate) fn shell(script: &str) -> ToolCommand {
    ToolCommand::new("sh").arg("-c").arg(script)
}

/// Returns the text of a result.
#[track_caller]
pub(crate) fn text(result: Result<ToolOutput, SandboxError>) -> String {
    result.unwrap().content[0].to_string()
}

/// Returns the command that runs the attack `what` in this test binary. The attack receives `args`.
pub(crate) fn attack(what: &str, args: &[&str]) -> ToolCommand {
    ToolCommand::new(std::env::current_exe().unwrap())
        .args(["attacker::attacker", "--exact", "--nocapture", "--test-threads=1"])
        .env("ATTACK", [&[what], args].concat().join("\n"))
}

/// Runs the attack `what` in the sandbox. Returns `did …` if the attack succeeded, and `refused …` if it was blocked.
pub(crate) async fn attempt(sandbox: &ProcessSandbox, what: &str, args: &[&str]) -> String {
    let output = text(run(sandbox, attack(what, args)).await);
    let said = output.lines().find_map(|line| line.split_once("ATTACK: "));
    said.unwrap_or_else(|| panic!("{what}: {output}")).1.to_owned()
}

#[track_caller]
pub(crate) fn assert_refused(what: &str, said: &str) {
    assert!(said.starts_with("refused"), "{what}: {said}");
}
