//! Calls a provider without an agent, once for a complete response and once for a stream.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    // ANCHOR: complete
    let mut request = CompletionRequest {
        system: Some("Answer in one sentence.".into()),
        messages: vec![Message::user("What is Rust?")],
        max_tokens: Some(256),
        ..Default::default()
    };
    let response = provider.complete(request.clone()).await?;
    println!("{}", response.message.text());
    println!("stop reason: {:?}", response.stop_reason);
    println!("{} tokens in, {} out", response.usage.input_tokens, response.usage.output_tokens);
    // ANCHOR_END: complete

    // ANCHOR: stream
    // The request contains the whole conversation, so the program appends the response and the next question.
    request.messages.push(response.message);
    request.messages.push(Message::user("And tokio?"));
    let mut stream = provider.complete_stream(request).await?.receiver;
    while let Some(event) = stream.recv().await {
        match event {
            StreamEvent::TextDelta(text) => println!("delta: {text:?}"),
            StreamEvent::ResponseComplete(response) => println!("end: {:?}", response.stop_reason),
            StreamEvent::Error(error) => return Err(error.into()),
            _ => {}
        }
    }
    // ANCHOR_END: stream
    Ok(())
}
