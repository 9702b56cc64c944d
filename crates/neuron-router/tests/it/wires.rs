//! A conversation that moves between all wire formats. The servers check every request.

use std::time::Duration;

use neuron_loop::{Agent, Conversation};
use neuron_model::transcript;
use neuron_testing::Reply;

use crate::support::streamed;
use crate::vendors::{LAST, NAMES, Servers, Step, TOOL_CALLS};

#[tokio::test]
async fn conversation_that_moves_between_all_wires_stays_valid() {
    for is_streamed in [false, true] {
        for offset in 0..NAMES.len() {
            let servers =
                Servers::start(|_| (0..40).map(|_| Reply::text("x")).collect()).await.unwrap();
            let router = servers.router(Duration::from_secs(60)).build().unwrap();
            let step = Step::default();
            let agent = Agent::builder(router)
                .tools(step.registry())
                .prepare_turn(move |turn| {
                    // The number of messages grows by two for each turn, and once more for each question.
                    let turn_number = turn.run.messages.len() / 2 + offset;
                    turn.settings.model = NAMES[turn_number % NAMES.len()].to_owned();
                })
                .build();
            let mut conversation = Conversation::new();
            for question in ["Make the steps.", "Again, please.", "And once more."] {
                let run = agent.run(&mut conversation, question);
                let response = match is_streamed {
                    false => run.await.unwrap().response,
                    true => streamed(run).await.response,
                };
                assert!(response.ends_with(LAST), "{response}");
                assert_eq!(step.take(), (0..TOOL_CALLS as u64).collect::<Vec<_>>());
                transcript::validate(conversation.messages()).unwrap();
            }
            let names = conversation.messages().iter().filter_map(|message| {
                message.metadata().and_then(|metadata| metadata.route).map(|route| route.name)
            });
            let names: Vec<String> = names.collect();
            assert_eq!(names.len(), 3 * (TOOL_CALLS + 1));
            // Each answer is from another wire than the answer before.
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
            assert!(servers.requests().iter().all(|requests| *requests > 0));
        }
    }
}
