//! Chats in the terminal, streams each response, and cancels a response at Ctrl-C.

use std::io::Write;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::ctrl_c;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Anthropic::from_env()?)
        .system_prompt("You are a calculator. Answer with a number.")
        .build();

    let mut conversation = Conversation::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        eprint!("you: ");
        let line = tokio::select! {
            line = lines.next_line() => line?,
            // `exit`, because a pending read of standard input would delay a return.
            _ = ctrl_c() => std::process::exit(130),
        };
        let Some(line) = line else { break };

        let events = agent.run(&mut conversation, line.as_str()).stream();
        tokio::select! {
            outcome = show(events) => {
                // The conversation is valid after an error too, so the chat can go on.
                outcome.unwrap_or_else(|error| println!("\n[{error}]"));
            }
            // This drops `events`, which stops the model call and all tools.
            _ = ctrl_c() => println!("\n[cancelled]"),
        }
    }
    println!("{} messages", conversation.messages().len());
    Ok(())
}

/// Prints the text of a response as it arrives.
async fn show(mut events: RunStream<'_>) -> Result<(), LoopError> {
    print!("agent: ");
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Event(StreamEvent::TextDelta(text)) => {
                print!("{text}");
                // A terminal that is gone is no error of the run.
                let _ = std::io::stdout().flush();
            }
            RunEvent::Ended(_) => println!(),
            _ => {}
        }
    }
    Ok(())
}
