//! An agent in the terminal. It lists, reads and writes files of the current folder, and asks before it writes.
//!
//! The conversation is stored in `.agent/`, and the next start continues it. Ctrl-C stops a response, and at the prompt
//! it ends the program.

mod files;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

type Input = Lines<BufReader<Stdin>>;

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
    // Another vendor is one line: neuron::openai::OpenAi::from_env()?, with the feature `openai`.
    let mut provider = Anthropic::from_env()?;
    if let Ok(url) = std::env::var("ANTHROPIC_BASE_URL") {
        provider = provider.base_url(url);
    }
    let agent = Agent::builder(provider)
        .tools(files::tools())
        .system_prompt("You help with the files of the current folder. Answer briefly.")
        // A call that no rule allows needs an approval.
        .permission_policy(PermissionRules::new([
            PermissionRule::allow("list_files").or_tool("read_file")
        ])?)
        .config(|config| config.pause_for_approval = true)
        .build();

    let session = SessionHandle::new(FileSessionStorage::new(".agent".into()), "main");
    let mut conversation = session.load().await?;
    if !conversation.messages().is_empty() {
        println!("Continuing with {} messages.", conversation.messages().len());
    }
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    while let Some(question) = read_line(&mut input, "\nyou: ").await? {
        if question.trim().is_empty() {
            continue;
        }
        let mut start = Start::from(question.as_str());
        // The loop ends after the response, or after an error that the user sees.
        loop {
            match respond(&agent, &mut conversation, &session, start).await {
                Ok(()) => break,
                Err(LoopError::ApprovalRequired(pending)) => {
                    let Some(decisions) = decide(&mut input, &pending).await? else {
                        return Ok(());
                    };
                    start = decisions.into();
                }
                Err(error) => {
                    println!("\n[{error}]");
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Runs the agent and prints its response as it arrives. Ctrl-C cancels the run.
async fn respond(
    agent: &Agent,
    conversation: &mut Conversation,
    session: &SessionHandle<'_>,
    start: Start,
) -> Result<(), LoopError> {
    let context = ToolContext::default();
    let mut events = agent.run(conversation, start).context(&context).store(session).stream();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            // The stream then ends with an error, after it has stored the conversation.
            Ok(()) = tokio::signal::ctrl_c(), if !context.cancellation_token.is_cancelled() => {
                context.cancellation_token.cancel();
                continue;
            }
        };
        match event.transpose()? {
            Some(RunEvent::Event(StreamEvent::TextDelta(text))) => {
                print!("{text}");
                let _ = std::io::stdout().flush();
            }
            Some(RunEvent::Event(StreamEvent::ToolUse { name, input, .. })) => {
                println!("  [{name} {input}]");
            }
            Some(RunEvent::Ended(_)) | None => {
                println!();
                return Ok(());
            }
            Some(_) => {}
        }
    }
}

/// Asks about each call that waits for an approval. Returns `None` at the end of the input.
async fn decide(
    input: &mut Input,
    pending: &PendingApproval,
) -> Result<Option<ApprovalDecisions>, Box<dyn Error>> {
    let mut decisions = ApprovalDecisions::new();
    for waiting in &pending.calls {
        let question = format!("\nAllow {} {}? (y/n) ", waiting.call.name, waiting.call.input);
        let Some(answer) = read_line(input, &question).await? else { return Ok(None) };
        decisions = match answer.trim() {
            "y" | "yes" => decisions.approve(&waiting.call.id),
            _ => decisions.deny(&waiting.call.id, "the user said no"),
        };
    }
    Ok(Some(decisions))
}

/// Reads a line. Returns `None` at the end of the input and after Ctrl-C.
async fn read_line(input: &mut Input, prompt: &str) -> Result<Option<String>, Box<dyn Error>> {
    print!("{prompt}");
    std::io::stdout().flush()?;
    tokio::select! {
        line = input.next_line() => Ok(line?),
        _ = tokio::signal::ctrl_c() => Ok(None),
    }
}
