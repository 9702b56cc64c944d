//! Continues one conversation in two ways, with `Conversation::fork`.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Anthropic::from_env()?).build();
    let mut conversation = Conversation::new();
    agent.run(&mut conversation, "I have one day in Lisbon. Where do I start?").await?;

    // ANCHOR: fork
    // A copy of all messages so far. The two conversations do not share later messages.
    let mut with_rain = conversation.fork(conversation.messages().len());
    let sun = agent.run(&mut conversation, "The sun shines. And then?").await?;
    let rain = agent.run(&mut with_rain, "It rains. And then?").await?;
    println!("sun: {}\nrain: {}", sun.response, rain.response);

    // A copy without the last question and its response: the user asks again in other words.
    let messages = conversation.messages().len();
    let mut retry = conversation.fork(messages.saturating_sub(2));
    let cold = agent.run(&mut retry, "It is cold. And then?").await?;
    println!("cold: {}", cold.response);
    // ANCHOR_END: fork
    for (name, fork) in [("sun", &conversation), ("rain", &with_rain), ("cold", &retry)] {
        println!("{name}: {} messages", fork.messages().len());
    }
    Ok(())
}
