//! An agent that survives `kill -9`.
//!
//! The agent books a train, which takes some seconds. Kill the program during this time, with Ctrl-C or `kill -9`, and
//! start it again. The run then continues after its last journal entry. Model calls and tool calls in the journal are
//! not executed again, so the card is charged only once. The model is a script in this program, so no API key is
//! needed.
//!
//! ```sh
//! cargo run -p neuron --example durable_agent --features durable-sqlite
//! cargo run -p neuron --example durable_agent --features durable-sqlite -- --new     # from the beginning
//! cargo run -p neuron --example durable_agent --features durable-sqlite -- FOLDER    # the journal is there
//! ```

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron::durable_sqlite::{JournalError, SqliteRuns};
use neuron::prelude::*;
use neuron::types::{HookScope, StreamHandle};
use serde_json::json;

const RUN: &str = "trip-to-lyon";
const QUESTION: &str = "Book me a seat on the next train to Lyon.";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let Options { folder, is_new } = Options::from_args()?;
    let journal = folder.join("durable_agent.db");
    println!("journal: {}", journal.display());
    let runs = SqliteRuns::open(&journal).await?;
    if is_new {
        forget(&runs, &folder).await?;
    }
    tell_where_it_is(&runs).await?;

    // A durable run needs a context with a journal, and the input with which the run started. The context holds the
    // run's lease, so no other process can drive the run.
    let tools = Arc::new(tools());
    let durable = runs.run(RUN).open(Arc::new(Script), tools.clone()).await?;
    let start = durable.start(QUESTION).await?;
    let agent = Agent::builder(Script)
        .tools((*tools).clone())
        .config(|config| config.parallel_tool_execution = true)
        .hook(Steps)
        .build();

    println!("          you: {QUESTION}");
    let ctx = ToolContext { cwd: folder.clone(), ..ToolContext::default() };
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, start).context(&ctx).durable(durable).await?;
    println!(
        "\n{} calls of the model and of tools were executed, the others were replayed from the journal.",
        done().len()
    );
    println!(
        "The agent used {} tokens in total.",
        result.usage.input_tokens + result.usage.output_tokens
    );
    println!("The card's statement: {}", charges(&folder));
    println!(
        "The run has ended. Started again, this program replays the journal. `--new` starts a new run."
    );
    Ok(())
}

/// Prints the state of the run in the journal.
async fn tell_where_it_is(runs: &SqliteRuns) -> Result<(), JournalError> {
    match runs.inspect(RUN).await {
        // `open` returns an error for a run that another process drives.
        Ok(run) if run.is_held => {}
        Ok(run) if run.summary.status.is_end() => {
            println!("The run has ended already. This is its journal. `--new` starts a new run.\n");
        }
        Ok(run) => {
            println!(
                "The run has {} steps so far, and continues. Kill it again.\n",
                run.summary.steps.unwrap_or_default()
            );
        }
        Err(JournalError::NotFound { .. }) => {
            let kill = format!("Ctrl-C or `kill -9 {}`", std::process::id());
            println!("This takes some seconds. Kill it with {kill}, and start it again.\n");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Deletes the run from the journal, and deletes the file that simulates the bank statement.
async fn forget(runs: &SqliteRuns, folder: &Path) -> Result<(), Box<dyn Error>> {
    match runs.delete(RUN).await {
        Ok(()) | Err(JournalError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match std::fs::remove_file(statement(folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

struct Options {
    folder: PathBuf,
    is_new: bool,
}

impl Options {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let (mut folder, mut is_new) = (None, false);
        for arg in std::env::args_os().skip(1) {
            match arg.to_str() {
                Some("--new") => is_new = true,
                Some(flag) if flag.starts_with('-') => {
                    return Err(format!("unknown option {flag}: use `--new` or a folder").into());
                }
                _ if folder.is_some() => return Err("more than one folder is given".into()),
                _ => folder = Some(PathBuf::from(arg)),
            }
        }
        let folder = match folder {
            // By default the journal is in the folder of the program, so that `cargo clean` removes it.
            None => std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned(),
            Some(folder) if folder.is_dir() => folder,
            Some(other) => return Err(format!("{} is not a folder", other.display()).into()),
        };
        Ok(Self { folder, is_new })
    }
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(FindTrainsTool);
    tools.register(GetWeatherTool);
    tools.register(HoldSeatTool);
    tools.register(ChargeCardTool);
    tools.register(ListChargesTool);
    tools
}

/// Returns the next train to a city. A second call changes nothing.
#[neuron_tool(effect = Pure)]
async fn find_trains(
    /// The city
    to: String,
    ctx: &ToolContext,
) -> Result<String, ToolError> {
    ask_the_world(&ctx.call_id, 1).await;
    Ok(format!("to {to} at 9:04, for 42 EUR"))
}

/// Returns the weather in a city. A second call changes nothing.
#[neuron_tool(effect = Pure)]
async fn get_weather(
    /// The city
    city: String,
    ctx: &ToolContext,
) -> Result<String, ToolError> {
    ask_the_world(&ctx.call_id, 2).await;
    Ok(format!("{city} is sunny, 22 °C"))
}

/// Holds a seat. A second request with the same idempotency key holds the same seat, so the call may be repeated.
#[neuron_tool(effect = Idempotent)]
async fn hold_seat(
    /// The departure time of the train
    departure: String,
    ctx: &ToolContext,
) -> Result<String, ToolError> {
    ask_the_world(&ctx.call_id, 1).await;
    Ok(format!("seat 14C at {departure}, under the key {}", ctx.idempotency_key))
}

/// Charges the card. A second call would charge the card twice, so the call is never repeated automatically.
#[neuron_tool(effect = AtMostOnce)]
async fn charge_card(
    /// The amount in euros
    euros: u32,
    ctx: &ToolContext,
) -> Result<String, io::Error> {
    ask_the_world(&ctx.call_id, 1).await;
    let path = statement(&ctx.cwd);
    let mut statement = std::fs::File::options().create(true).append(true).open(path)?;
    writeln!(statement, "{euros} EUR")?;
    ask_the_world(&ctx.call_id, 1).await;
    Ok(format!("{euros} EUR charged"))
}

/// Returns the charges on the card. A second call changes nothing.
#[neuron_tool(effect = Pure)]
async fn list_charges(ctx: &ToolContext) -> Result<String, ToolError> {
    ask_the_world(&ctx.call_id, 1).await;
    Ok(format!("charged so far: {}", charges(&ctx.cwd)))
}

/// Returns the path of the file that simulates the bank statement.
fn statement(folder: &Path) -> PathBuf {
    folder.join("durable_agent.statement.txt")
}

/// Returns all charges in the file that simulates the bank statement, separated by commas. Returns `nothing` if there
/// are none.
fn charges(folder: &Path) -> String {
    let text = std::fs::read_to_string(statement(folder)).unwrap_or_default();
    let charges: Vec<_> = text.lines().collect();
    if charges.is_empty() { "nothing".into() } else { charges.join(", ") }
}

/// The model calls and tool calls that this process executed, and did not replay from the journal.
static DONE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn done() -> BTreeSet<String> {
    DONE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Imitates a request to a real service. Records the call `what` as executed, and sleeps for `how_long` times 600 ms.
async fn ask_the_world(what: &str, how_long: u32) {
    DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned());
    tokio::time::sleep(Duration::from_millis(600) * how_long).await;
}

/// A hook that prints each model response and tool result, and marks it as new or as replayed from the journal.
struct Steps;

impl Steps {
    fn print(step: &str, who: &str, what: &str) {
        let from = if done().contains(step) { "    [new]" } else { "[journal]" };
        println!("{from} {who}: {what}");
    }
}

impl ObservabilityHook for Steps {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        match event {
            HookEvent::PostLlmCall { response } => {
                let calls: Vec<_> = response.message.tool_uses().map(|call| call.name).collect();
                let text = match calls.is_empty() {
                    true => response.message.text(),
                    false => format!("calls {}", calls.join(" and ")),
                };
                Self::print(&format!("answer {}", scope.turn), "model", &text);
            }
            HookEvent::PostToolExecution { tool_name, output } => {
                let text: String = output.content.iter().map(ToString::to_string).collect();
                Self::print(scope.call_id.unwrap_or_default(), tool_name, &text);
            }
            _ => {}
        }
        Ok(HookAction::Continue)
    }
}

/// A scripted model whose next response depends only on the conversation so far. A restarted program therefore gets the
/// correct next response.
struct Script;

impl Script {
    fn answer(messages: &[Message]) -> Message {
        let call = |id: &str, name: &str, input| {
            let (id, name) = (id.into(), name.into());
            ContentBlock::ToolUse { id, name, input }
        };
        let calls = |content| Message { role: Role::Assistant, content };
        if result(messages, "trains").is_none() {
            return calls(vec![
                call("trains", "find_trains", json!({ "to": "Lyon" })),
                call("weather", "get_weather", json!({ "city": "Lyon" })),
            ]);
        }
        if result(messages, "seat").is_none() {
            return calls(vec![call("seat", "hold_seat", json!({ "departure": "9:04" }))]);
        }
        let Some((_, is_error)) = result(messages, "charge") else {
            return calls(vec![call("charge", "charge_card", json!({ "euros": 42 }))]);
        };
        if !is_error {
            return Message::assistant("Seat 14C at 9:04 is yours, and 42 EUR are paid.");
        }
        // The process was killed during the payment. The journal has no result of the call, so the agent asks the bank.
        let Some((charges, _)) = result(messages, "charges") else {
            return calls(vec![call("charges", "list_charges", json!({}))]);
        };
        Message::assistant(match charges.contains("42 EUR") {
            true => {
                "Seat 14C at 9:04 is yours. I was interrupted while I paid: the 42 EUR are charged."
            }
            false => {
                "Seat 14C at 9:04 is held. I was interrupted before I paid: pay the 42 EUR on board."
            }
        })
    }
}

/// Returns the result text of the tool call with the id `call`, and `true` if the result is an error. Returns `None` if
/// the call has no result yet.
fn result(messages: &[Message], call: &str) -> Option<(String, bool)> {
    messages.iter().flat_map(|message| &message.content).find_map(|block| match block {
        ContentBlock::ToolResult { tool_use_id, content, is_error } if tool_use_id == call => {
            Some((content.iter().map(ToString::to_string).collect(), *is_error))
        }
        _ => None,
    })
}

impl Provider for Script {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let said =
            request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        ask_the_world(&format!("answer {said}"), 1).await;
        let message = Self::answer(&request.messages);
        let stop_reason = match message.tool_uses().next() {
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        let usage = TokenUsage { input_tokens: 400, output_tokens: 40, ..TokenUsage::default() };
        let (id, model) = (format!("answer-{said}"), "script".into());
        Ok(CompletionResponse { id, model, message, usage, stop_reason })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("the script does not stream".into()))
    }
}
