//! Runs the book's programs with other libraries against servers with scripted replies, and compares their output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use neuron_testing::{AnthropicServer, OpenAiServer, Reply};
use neuron_testkit::fetch::{Packages, Program};
use serde_json::json;

/// The Python program with the libraries of `requirements.txt`.
const PYTHON: Program = Program {
    id: "book-other",
    name: "the Python libraries of the book",
    variable: None,
    installed: || None,
    packages: Packages::Python(include_str!("../requirements.txt")),
    size: "some 30 MB",
    file: "bin/python",
    trial: &["-c", "import agents, pydantic_ai"],
};

const WEATHER: &str = "It is sunny in Tokyo, at 22 °C.";

#[test]
fn the_pages_name_the_tested_versions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let pins = format!("{}\n{}", read("Cargo.toml"), read("requirements.txt"));
    for (page, pin, sentence) in [
        ("rig", "rig = \"=0.44.", "rig 0.44"),
        ("clients", "async-openai = { version = \"=0.43.", "async-openai 0.43"),
        ("clients", "genai = \"=0.7.", "genai 0.7"),
        ("pydantic-ai", "pydantic-ai-slim==2.68.", "Pydantic AI 2.68"),
        ("openai-agents", "openai-agents==0.24.", "version 0.24"),
    ] {
        assert!(pins.contains(pin), "{pin}");
        assert!(read(&format!("../pages/come-from/{page}.md")).contains(sentence), "{sentence}");
    }
}

#[tokio::test]
async fn rig() {
    let replies = [
        Reply::tool_call("call_1", "subtract", json!({ "x": 2, "y": 5 })),
        Reply::text("2 - 5 is -3."),
        Reply::tool_call("call_2", "submit", json!({ "name": "Ada", "age": 36 })),
    ];
    let program = Command::new(env!("CARGO_BIN_EXE_rig"));
    assert_eq!(with_openai(replies, program).await, "2 - 5 is -3.\nAda is 36 years old.\n");
}

#[tokio::test]
async fn async_openai() {
    let replies = [
        Reply::text("Air scatters blue light more than red light."),
        Reply::tool_call("call_1", "get_weather", json!({ "city": "Tokyo" })),
        Reply::text(WEATHER),
    ];
    let program = Command::new(env!("CARGO_BIN_EXE_async_openai"));
    let expected = format!("Air scatters blue light more than red light.\n{WEATHER}\n");
    assert_eq!(with_openai(replies, program).await, expected);
}

#[tokio::test]
async fn genai() {
    let replies = [
        Reply::text("Air scatters blue light more than red light."),
        Reply::text("Blue light is scattered more than red light."),
        Reply::tool_call("call_1", "get_weather", json!({ "city": "Tokyo" })),
        Reply::text(WEATHER),
    ];
    let program = Command::new(env!("CARGO_BIN_EXE_genai"));
    let output = with_openai(replies, program).await;
    assert!(output.starts_with("Air scatters blue light more than red light.\n"), "{output}");
    assert!(output.contains("Blue light is scattered more than red light."), "{output}");
    assert!(output.ends_with(&format!("{WEATHER}\n")), "{output}");
}

#[tokio::test]
async fn pydantic_ai() {
    let Some(program) = python("from_pydantic_ai.py") else { return };
    let replies = [
        Reply::tool_call("toolu_1", "order_state", json!({ "order": 42 })),
        Reply::tool_call(
            "toolu_2",
            "final_result",
            json!({ "advice": "Send one of the parcels back.", "refundable": true }),
        ),
        Reply::tool_call("toolu_3", "refund", json!({ "order": 42 })),
        Reply::text("Order 42 is refunded."),
    ];
    let server = AnthropicServer::start(replies).await.unwrap();
    let variables =
        [("ANTHROPIC_API_KEY", AnthropicServer::API_KEY), ("ANTHROPIC_BASE_URL", &server.url())];
    let output = run(program, variables).await;
    server.assert_complete();
    let expected = "Send one of the parcels back. (refundable: True)\n\
        approved: refund {\"order\":42}\n\
        Order 42 is refunded.\n";
    assert_eq!(output, expected);
}

#[tokio::test]
async fn openai_agents() {
    let Some(mut program) = python("from_openai_agents.py") else { return };
    program.env("OPENAI_AGENTS_DISABLE_TRACING", "1");
    let replies = [
        Reply::tool_call("call_1", "transfer_to_billing", json!({})),
        Reply::tool_call("call_2", "refund", json!({ "order": 42 })),
        Reply::text("The second payment is on its way back."),
        Reply::tool_call("call_3", "translator", json!({ "input": "Good morning" })),
        Reply::text("Bonjour"),
        Reply::text("Bonjour!"),
    ];
    let expected = "Billing: The second payment is on its way back.\nWriter: Bonjour!\n";
    assert_eq!(with_openai(replies, program).await, expected);
}

/// Returns a command that runs a Python script of this package. Returns `None` if the libraries are not available.
fn python(script: &str) -> Option<Command> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = PYTHON.or_skip(|path| Ok(path.to_owned()))?;
    let mut command = Command::new(python);
    command.arg(folder.join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(command)
}

/// Runs a program with a server that replaces OpenAI, and returns its output. Panics if it fails, or if it does not
/// request every reply.
async fn with_openai<const N: usize>(replies: [Reply; N], program: Command) -> String {
    let server = OpenAiServer::start(replies).await.unwrap();
    let variables =
        [("OPENAI_API_KEY", OpenAiServer::API_KEY), ("OPENAI_BASE_URL", &format!("{}/v1", server.url()))];
    let output = run(program, variables).await;
    server.assert_complete();
    output
}

/// Runs a program and returns its standard output. Panics if it fails.
async fn run(mut program: Command, variables: [(&str, &str); 2]) -> String {
    program.envs(variables).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || program.output()).await.unwrap().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout
}
