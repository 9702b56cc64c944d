//! Runs each Rust example of the README and the guide, and checks the behaviour that the text beside the example
//! describes. Requires no network and no API key.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use neuron::mcp::{McpClient, StdioConfig};
use neuron::prelude::ProviderError;
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply};
use neuron_testkit::mcp::Suite;
use serde_json::json;
use tokio::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_neuron-readme");

/// Returns a command that runs an example in a folder. The example uses the server at the URL `server` instead of the
/// vendor's server.
fn command(example: &str, folder: &Path, server: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(example).current_dir(folder).env("README_SERVER", server).kill_on_drop(true);
    for name in
        ["ANTHROPIC_API_KEY", "OLLAMA_API_KEY", "OLLAMA_HOST", "OPENAI_API_KEY", "OPENAI_ORG_ID"]
    {
        command.env_remove(name);
    }
    command
        .env("ANTHROPIC_API_KEY", AnthropicServer::API_KEY)
        .env("OPENAI_API_KEY", OpenAiServer::API_KEY);
    command
}

/// Runs an example in a new folder until it ends, and returns its standard output.
async fn run(example: &str, server: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    output(command(example, folder.path(), server)).await
}

/// Runs a command and returns its standard output. Panics if the command fails.
async fn output(mut command: Command) -> String {
    let output = command.output().await.unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{}:\n{stdout}\n{stderr}", output.status);
    stdout
}

#[test]
fn every_example_has_a_test() {
    let names: &[&str] = &include!(concat!(env!("OUT_DIR"), "/names.rs"));
    assert_eq!(
        names,
        [
            "an-agent",
            "tools-and-long-conversations",
            "control",
            "in-production",
            "telemetry",
            "mcp",
            "runs-that-survive-a-crash",
            "providers-anthropic",
            "providers-ollama",
            "providers-openai",
            "tests-without-a-model",
        ]
    );
}

#[tokio::test]
async fn agent_calls_its_tool_and_prints_the_response() {
    let server = AnthropicServer::start([
        Reply::tool_call("toolu_1", "get_weather", json!({"city": "Tokyo"})),
        Reply::text("It is sunny in Tokyo."),
    ])
    .await
    .unwrap();
    assert_eq!(run("an-agent", &server.url()).await, "It is sunny in Tokyo.\n");
    server.assert_complete();
    let bodies = server.bodies();
    assert!(bodies[0]["system"].to_string().contains("You are a helpful weather assistant."));
    assert_eq!(bodies[0]["messages"][0]["role"], "user");
    // The comments of the tool and its arguments become the descriptions for the model.
    let tool = &bodies[0]["tools"][0];
    assert_eq!(tool["name"], "get_weather");
    assert_eq!(tool["description"], "Returns the current weather in a city");
    assert_eq!(
        tool["input_schema"]["properties"]["city"]["description"],
        "The city to get the weather for"
    );
    assert!(bodies[1]["messages"].to_string().contains("Tokyo: 22 °C, sunny"));
}

#[tokio::test]
async fn middleware_and_strategies_do_what_the_comments_say() {
    assert_eq!(
        run("tools-and-long-conversations", "").await,
        "20000 characters became fewer than 10500: true\n\
         the model may correct its arguments: true\n\
         a tool that hangs fails: true, after 30 s\n\
         compacts: true\n\
         emptied: 20 of 25 results, the last 5 are whole\n\
         messages dropped: true\n\
         within the budget: true\n"
    );
}

#[tokio::test]
async fn run_asks_for_approvals_and_finishes_at_its_limit() {
    let lookups: String = (1..=10).map(|turn| format!("get_size {turn}\n")).collect();
    assert_eq!(
        run("control", "").await,
        format!(
            "get_size a\nasked about delete_file\ndelete_file a\nThe folder is clean.\n{lookups}Not all is clean.\n\
the last call may use tools: false\n"
        )
    );
}

/// Reports a check that is not possible on this machine. Panics if the environment variable `CI` is `true`.
#[cfg(target_os = "linux")]
fn not_checked(what: &str, reason: &str) {
    println!("not checked: {what} ({reason})");
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_ci, "with CI=true {what} must be checked: {reason}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sandbox_confines_programs_beside_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("project/out")).unwrap();
    fs::write(folder.path().join("project/a.txt"), "text of a\n").unwrap();
    fs::write(folder.path().join("project/.env"), "KEY=hunter2\n").unwrap();
    fs::write(folder.path().join("secret.txt"), "hunter2\n").unwrap();
    let printed = output(command("in-production", folder.path(), "")).await;
    if let Some(reason) = printed.strip_prefix("no sandbox: ") {
        return not_checked("the README's example with a sandbox", reason.trim());
    }
    let (network, printed) = printed.split_once('\n').unwrap();
    if network == "network: false" {
        not_checked("the network in the README's sandbox", "no bash");
    }
    // Functions, tools of MCP servers and other agents run outside of the sandbox.
    let called = "read_file project/a.txt\nread_news\nread_file project/a.txt\nHello\nHello!\nWhere were we?\n";
    assert!(printed.starts_with(called), "{printed}");
    // A program can only read the project and write to the allowed folder. It has no network.
    let results = [
        "[tool result c0: text of a\n]",
        "[tool result c1: no news]",
        "[tool result c2: text of a\nwritten\n]",
        "[tool error c3: ",
        "[tool error c4: ",
        "[tool error c5: ",
        "[tool error c6: permission denied: `read_file` is denied by the rule `deny *_file`]",
        "[tool result c7: I have no objection.]\nAt the review.\n",
        "terminated by hook: output guardrail `NoAddresses`: the answer has an e-mail address\n",
        "the session is as before: true\n",
        "[tool error c: permission denied: May `write_file` be called? No rule says so]\nI may not.\n",
    ];
    let mut rest = printed;
    for result in results {
        let at = rest.find(result).unwrap_or_else(|| panic!("no {result:?} in {rest}\n{printed}"));
        rest = &rest[at + result.len()..];
    }
    assert_eq!(rest, "");
    assert_eq!(fs::read_to_string(folder.path().join("project/out/b.txt")).unwrap(), "b\n");
    assert!(!folder.path().join("project/c.txt").exists());
    for absent in ["hunter2", "connected", "somebody@", "write_file a"] {
        assert!(!printed.contains(absent), "{absent}: {printed}");
    }
}

#[tokio::test]
async fn telemetry_exports_the_spans_of_a_run_without_its_text() {
    let server = AnthropicServer::start(["It is on its way."]).await.unwrap();
    assert_eq!(run("telemetry", &server.url()).await, "chat claude-sonnet-4-6\ninvoke_agent\n");
}

#[tokio::test]
async fn mcp_example_uses_a_server_and_serves_its_own_tool() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let config = StdioConfig {
        command: PROGRAM.into(),
        args: vec!["mcp".into()],
        env: vec![("PATH".into(), with_npx(&suite, folder.path()))],
    };
    let client = McpClient::connect_stdio(config).await.unwrap();
    assert_eq!(client.server_info().name, "my-tools");
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["add"]);
    let sum = client.call_tool_json("add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.content[0].to_string(), "5");
    client.close().await;
    let discovered = fs::read_to_string(folder.path().join("discovered")).unwrap();
    assert!(discovered.split(' ').any(|tool| tool == "read_text_file"), "{discovered}");
}

/// Returns a search path whose first folder contains an `npx`. This `npx` starts the installed file server of the MCP
/// project instead of downloading it.
#[cfg(unix)]
fn with_npx(suite: &Suite, folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;

    let server = suite.server_filesystem();
    let words: Vec<String> =
        [&server.program].into_iter().chain(&server.args).map(|word| format!("'{word}'")).collect();
    let npx = folder.join("npx");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = '-y @modelcontextprotocol/server-filesystem' ] || exit 2\nshift 2\nexec {} \"$@\"\n",
        words.join(" ")
    );
    fs::write(&npx, script).unwrap();
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn durable_run_resumes_after_a_kill_without_repeating_steps() {
    let folder = tempfile::tempdir().unwrap();
    let server = AnthropicServer::start([
        Reply::tool_call("toolu_1", "refund", json!({"order": 42})),
        Reply::hang(),
        Reply::text("Order 42 is refunded."),
    ])
    .await
    .unwrap();
    let example = || command("runs-that-survive-a-crash", folder.path(), &server.url());
    let mut first = example().stdout(Stdio::null()).spawn().unwrap();
    server.wait_for_requests(2).await;
    first.kill().await.unwrap();
    assert_eq!(output(example()).await, "Order 42 is refunded.\n");
    // The second process did not request the first response again, and did not run the tool again.
    server.assert_complete();
    assert_eq!(server.bodies().len(), 3);
    assert_eq!(server.bodies()[1], server.bodies()[2]);
    assert_eq!(fs::read_to_string(folder.path().join("refunds.txt")).unwrap(), "42\n");
}

#[tokio::test]
async fn each_provider_example_retries_an_error() {
    // The first reply of each server is an error. The retry layer of the example then repeats the request.
    let replies = || {
        let overloaded = ProviderError::ServiceUnavailable("overloaded".into());
        [Reply::error(overloaded), Reply::text("A language.")]
    };
    let anthropic = AnthropicServer::start(replies()).await.unwrap();
    assert_eq!(run("providers-anthropic", &anthropic.url()).await, "A language.\n");
    let openai = OpenAiServer::start(replies()).await.unwrap();
    assert_eq!(run("providers-openai", &openai.url()).await, "A language.\n");
    let ollama = OllamaServer::start(replies()).await.unwrap();
    assert_eq!(run("providers-ollama", &ollama.url()).await, "A language.\n");
    for requests in [anthropic.bodies().len(), openai.bodies().len(), ollama.bodies().len()] {
        assert_eq!(requests, 2);
    }
}

#[tokio::test]
async fn recorded_agent_is_evaluated_without_the_vendor() {
    let folder = tempfile::tempdir().unwrap();
    let server = AnthropicServer::start([
        Reply::tool_call("toolu_1", "get_weather", json!({"city": "Tokyo"})),
        Reply::text("It is sunny in Tokyo."),
    ])
    .await
    .unwrap();
    let example = |mode: &str| {
        let mut example = command("tests-without-a-model", folder.path(), &server.url());
        example.env("NEURON_CASSETTES", mode);
        example
    };
    let report = "weather: 100 % (1 of 1, 95 % interval 21 to 100 %)\n  ok tokyo: 1 of 1\n\n";
    assert_eq!(output(example("record")).await, report);
    server.assert_complete();
    assert!(folder.path().join("weather.json").exists());
    let mut replay = example("replay");
    replay.env_remove("ANTHROPIC_API_KEY");
    assert_eq!(output(replay).await, report);
    assert_eq!(server.bodies().len(), 2);
}
