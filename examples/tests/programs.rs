//! Runs every example program against servers with scripted replies, and compares its output with `output/NAME.txt`,
//! which the book shows.
//!
//! With the environment variable `UPDATE_OUTPUT=1`, the tests write the files instead.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use neuron_examples::examples;

/// Defines a test for each program.
macro_rules! programs {
    ($($name:ident)*) => {
        /// Names of the programs with a test.
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() {
                check(stringify!($name), env!(concat!("CARGO_BIN_EXE_", stringify!($name)))).await;
            }
        )*
    };
}

programs! {
    first_agent
    first_tool
    streaming
    chat
    tool_kinds
    dynamic_tool
    deferred_tools
    tool_middleware
    long_conversation
    summary_strategy
    typed_extraction
    chat_session
    sqlite_session
    image_and_pdf
    image_from_tool
    rag
    approval_prompt
    approval_later
    approval_wait
    budget
    budget_in_money
    cache_miss_detector
    guardrails
    loop_detector
    sandboxed_shell
    sub_agents
    sub_agents_only
    sub_agents_from_code
    mcp_tools
    mcp_policy
    mcp_serve
    mcp_axum
    telemetry
    telemetry_otlp
    tracing_log
    http_service
    own_http_client
    low_level
    any_provider
    retries
    fallback
    routing
    compatible_server
    dialects
    local_model
    evals
    custom_provider
    custom_strategy
    custom_middleware
    custom_storage
    custom_durable_engine
    durable_run
    unknown_outcome
    continue_session
    new_code
    agent_version
    run_pool
    restate_service
    cancel
    steps
    fork
    come_from_rig
    come_from_clients
    own_loop
    come_from_pydantic_ai
    come_from_openai_agents
}

#[test]
fn every_program_has_a_test() {
    let names: Vec<&str> = examples().iter().map(|example| example.name).collect();
    assert_eq!(names, TESTED);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(names.contains(&&*name), "{name} is not in the list of the examples");
    }
}

/// Runs a program in an empty folder. Panics if it fails, if its output differs from the file, or if it does not request
/// every reply of the script.
async fn check(name: &str, program: &str) {
    let all = examples();
    let example = all.iter().find(|example| example.name == name).unwrap();
    let servers = example.start_servers(|_| false).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
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
