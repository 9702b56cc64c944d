//! An agent in the terminal. It lists, reads and writes files of the current folder, and asks before it writes.
//!
//! The conversation is stored in `.agent/`, and the next start continues it. Ctrl-C stops a response, and at the prompt
//! it ends the program.

mod files;
mod terminal;

use std::error::Error;
use std::process::ExitCode;

use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::tool::builtin::OutputFormatter;
use neuron::types::StorageError;

use self::terminal::Terminal;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let agent = agent()?;
    let session = SessionHandle::new(FileSessionStorage::new(".agent".into()), "main");
    let mut conversation = session.load().await?;
    if !conversation.messages().is_empty() {
        println!("Continuing with {} messages.", conversation.messages().len());
    }
    let mut terminal = Terminal::new();
    // Calls may wait for an approval since the last start.
    let mut waiting = conversation.pending();
    loop {
        let start = match waiting.take() {
            Some(pending) => match decide(&mut terminal, &pending).await? {
                Some(decisions) => Start::from(decisions),
                None => return Ok(()),
            },
            None => match terminal.read_line("\nyou: ").await? {
                Some(question) if question.trim().is_empty() => continue,
                Some(question) => Start::from(question.as_str()),
                None => return Ok(()),
            },
        };
        match respond(&agent, &mut conversation, &session, &mut terminal, start).await {
            Ok(()) => {}
            Err(LoopError::ApprovalRequired(pending)) => waiting = Some(*pending),
            Err(LoopError::Storage(StorageError::Conflict { .. })) => {
                println!("\n[another program changed the conversation, which is read again]");
                conversation = session.load().await?;
            }
            Err(error) => println!("\n[{error}]"),
        }
    }
}

fn agent() -> Result<Agent, Box<dyn Error>> {
    // Another vendor is one line: neuron::openai::OpenAi::from_env()?, with the feature `openai`.
    let provider = Anthropic::from_env()?;
    let mut tools = files::tools();
    // The model receives the first 20,000 characters of a longer result.
    tools.add_middleware(OutputFormatter::new(20_000));
    let agent = Agent::builder(provider)
        .tools(tools)
        .system_prompt("You help with the files of the current folder. Answer briefly.")
        // Above 100,000 tokens, keeps the last 40 messages.
        .context(SlidingWindowStrategy::new(40, 100_000))
        // A call that no rule allows needs an approval.
        .permission_policy(PermissionRules::new([
            PermissionRule::allow("list_files").or_tool("read_file")
        ])?)
        .config(|config| config.pause_for_approval = true)
        .build();
    Ok(agent)
}

/// Runs the agent and prints its response as it arrives. Ctrl-C cancels the run.
async fn respond(
    agent: &Agent,
    conversation: &mut Conversation,
    session: &SessionHandle<'_>,
    terminal: &mut Terminal,
    start: Start,
) -> Result<(), LoopError> {
    let context = ToolContext::default();
    let mut events = agent.run(conversation, start).context(&context).store(session).stream();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            // The stream then ends with an error, after it has stored the conversation.
            () = terminal.interrupted() => {
                context.cancellation_token.cancel();
                continue;
            }
        };
        match event.transpose()? {
            Some(RunEvent::Event(StreamEvent::TextDelta(text))) => terminal::print(&text),
            Some(RunEvent::Event(StreamEvent::ToolUse { name, input, .. })) => {
                terminal::print(&format!("  [{name} {input}]\n"));
            }
            Some(RunEvent::Ended(_)) | None => {
                println!();
                return Ok(());
            }
            Some(_) => {}
        }
    }
}

/// Asks about each call that waits for an approval. Returns `None` if the user ends the program.
async fn decide(
    terminal: &mut Terminal,
    pending: &PendingApproval,
) -> Result<Option<ApprovalDecisions>, Box<dyn Error>> {
    let mut decisions = ApprovalDecisions::new();
    for waiting in &pending.calls {
        let question = format!("\nAllow {} {}? (y/n) ", waiting.call.name, waiting.call.input);
        let Some(answer) = terminal.read_line(&question).await? else { return Ok(None) };
        decisions = match answer.trim() {
            "y" | "yes" => decisions.approve(&waiting.approval_id),
            _ => decisions.deny(&waiting.approval_id, "the user said no"),
        };
    }
    Ok(Some(decisions))
}
