//! Scripts of the programs in the part "providers".

use neuron::types::ProviderError;
use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example, tokens};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("low_level", || Script::anthropic([
            Reply::text("Rust is a systems programming language."),
            Reply::text("Tokio is an async runtime for Rust."),
        ])),
        example!("any_provider", || Script {
            anthropic: vec![Reply::text("I am Claude, made by Anthropic.")],
            openai: vec![
                Reply::text("I am ChatGPT, made by OpenAI."),
                Reply::text("I am ChatGPT, made by OpenAI."),
            ],
            ollama: vec![Reply::text("I am a model on your own machine.")],
            ..Script::default()
        }),
        example!("retries", || Script::anthropic([
            overloaded(),
            Reply::text("I am well."),
            overloaded(),
            Reply::text("I am well again."),
        ])),
        example!("fallback", || Script {
            anthropic: vec![overloaded()],
            openai: vec![
                Reply::text("A lock that expires."),
                Reply::text("A number that grows with each lease."),
            ],
            ..Script::default()
        }),
        example!("routing", || Script {
            anthropic: vec![
                Reply::text(
                    "Red flakes on the gate, the old hinge sings in the rain, iron turns to earth."
                ),
                Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Rome" })),
            ],
            openai: vec![
                Reply::text("Rote Flocken am Tor, die alte Angel singt im Regen, Eisen wird Erde."),
                Reply::text("It is sunny in Rome, at 22 °C."),
            ],
            ..Script::default()
        }),
        example!("compatible_server", || Script {
            openai: vec![Reply::text("I am the model of this server.")],
            ..Script::default()
        }),
        example!("dialects", Script::default),
        example!("local_model", || Script {
            ollama: vec![
                Reply::tool_call("call_1", "free_space", json!({ "mount": "/" })),
                Reply::text("There are 42 GB left."),
            ],
            ..Script::default()
        }),
        example!("evals", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_temperature", json!({ "city": "Tokyo" })),
            Reply::text("It is 22.5 °C in Tokyo."),
            Reply::text("Yes, it is winter in Oslo."),
        ])),
        example!("custom_provider", Script::default),
        example!("custom_strategy", || Script::anthropic([
            used(40, "Kyoto was the capital before Tokyo."),
            used(80, "Mount Fuji has 3776 metres."),
            used(120, "The flag shows the sun."),
            used(80, "About 125 million people live there."),
        ])),
        example!("custom_middleware", || Script::anthropic([
            Reply::tool_calls([
                ("toolu_1", "send_mail", json!({ "to": "ada@example.com" })),
                ("toolu_2", "send_mail", json!({ "to": "eve@evil.test" })),
            ]),
            Reply::text(""),
            Reply::text("I have sent one mail. The other address is not allowed."),
        ])),
        example!("custom_storage", Script::default),
        example!("custom_durable_engine", || Script::anthropic([
            Reply::tool_call("toolu_1", "charge_card", json!({ "cents": 4200 })),
            Reply::text("The card is charged."),
            Reply::text("Please check whether the card was charged."),
        ])),
    ]
}

fn overloaded() -> Reply {
    Reply::error(ProviderError::ServiceUnavailable("Overloaded".into()))
}

/// Returns a reply that reports `input_tokens` tokens of the request.
fn used(input_tokens: usize, text: &str) -> Reply {
    Reply::text(text).usage(tokens(input_tokens, 10))
}
