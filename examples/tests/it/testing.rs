//! Checks the outputs that the book's page on tests shows. Requires no network and no API key.
//!
//! The page shows `testing/weather.rs`, whose tests replay `cassettes/weather.json`. A test here records this file from a
//! loopback server. Another test compares the reports with the page.

use std::path::Path;
use std::process::Stdio;

use neuron_testing::{AnthropicServer, Reply};
use serde_json::json;
use tokio::process::Command;

mod page {
    include!("testing/weather.rs");

    /// Runs the agent with a question that was not recorded, and returns its error.
    pub(super) async fn changed_question() -> LoopError {
        let agent = weather_agent(recorded_model(), tools());
        let question = QUESTION.replace("Fahrenheit", "Celsius");
        agent.run(&mut Conversation::new(), question.as_str()).await.unwrap_err()
    }

    /// Runs the agent twice with the same cassette, and returns the error of the second run.
    pub(super) async fn repeated_run() -> LoopError {
        let agent = weather_agent(recorded_model(), tools());
        agent.run(&mut Conversation::new(), QUESTION).await.unwrap();
        agent.run(&mut Conversation::new(), QUESTION).await.unwrap_err()
    }
}

const PAGE: &str = include_str!("../../../book/pages/guides/testing.md");

/// Runs a test of the page in `folder` with variables of the environment, and returns its standard output.
async fn run(test: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("testing::page::{test}"), "--exact", "--nocapture"]).current_dir(folder);
    command.env_remove("ANTHROPIC_API_KEY").env_remove("NEURON_CASSETTES");
    command.envs(variables.iter().copied()).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{}:\n{stdout}\n{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "no test was run:\n{stdout}");
    stdout
}

#[tokio::test]
async fn page_records_the_quickstart_agent_and_replays_it_without_a_key() {
    let server = AnthropicServer::start([
        Reply::tool_call("toolu_01", "get_weather", json!({ "city": "San Francisco" }))
            .with_text("Let me look that up."),
        Reply::tool_call("toolu_02", "to_fahrenheit", json!({ "celsius": 22.5 })),
        Reply::text("It is sunny in San Francisco, at 72.5 °F (22.5 °C)."),
    ])
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let record = [
        ("NEURON_CASSETTES", "record"),
        ("ANTHROPIC_API_KEY", AnthropicServer::API_KEY),
        ("ANTHROPIC_BASE_URL", &server.url()),
    ];
    run("agent_answers_in_fahrenheit", folder.path(), &record).await;
    server.assert_complete();
    for test in ["agent_answers_in_fahrenheit", "agent_uses_its_tools", "agent_survives_faults"] {
        run(test, folder.path(), &[]).await;
    }
    assert_eq!(server.bodies().len(), 3);
}

#[tokio::test]
async fn page_shows_the_reports_and_the_errors_of_the_cassette() {
    let eval = run("agent_uses_its_tools", Path::new("."), &[]).await;
    let report = eval.lines().find(|line| line.contains("weather: ")).unwrap();
    assert_on_page(report);
    let faults = run("agent_survives_faults", Path::new("."), &[]).await;
    let report = faults.lines().find(|line| line.contains("broke a promise")).unwrap();
    assert_on_page(report);

    assert_on_page(&page::changed_question().await.to_string());
    let error = page::repeated_run().await.to_string();
    let (_, reason) = error.split_once("weather.json: ").unwrap();
    assert_on_page(reason.split(';').next().unwrap());
}

/// Checks that the page contains the text, possibly with other line breaks.
#[track_caller]
fn assert_on_page(text: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(PAGE).contains(&words(text)), "the page does not contain: {text}");
}
