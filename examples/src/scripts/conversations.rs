//! Scripts of the programs in the part "conversations".

use neuron::types::StopReason;
use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example, tokens};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("long_conversation", || Script::anthropic([
            used(300, Reply::text("Understood.")),
            used(330, read_log("1", "Monday")),
            used(810, read_log("2", "Tuesday")),
            used(1_290, read_log("3", "Wednesday")),
            used(900, Reply::text("No check failed from Monday to Wednesday.")),
            used(930, read_log("4", "Thursday")),
            used(1_410, read_log("5", "Friday")),
            used(850, Reply::text("No check failed on Thursday and Friday.")),
        ])),
        example!("summary_strategy", || Script::anthropic([
            used(100, Reply::text("Good choice. When, and for how long?")),
            used(200, Reply::text("Then the rail pass for 14 days is a good deal.")),
            used(380, Reply::text("Then I leave out Tokyo and Osaka.")),
            used(
                150,
                Reply::text(
                    "The user and Ada plan two weeks in Japan in May, by train. The agent proposed a rail pass for 14 days."
                )
            ),
            used(250, Reply::text("Start in Kanazawa.")),
        ])),
        example!("typed_extraction", || Script::anthropic([
            Reply::tool_call("toolu_1", "final_output", invoice(4_200)),
            Reply::tool_call("toolu_2", "final_output", invoice(4_250)),
            Reply::text(r#"{"value":["drill","screws","hammer"]}"#),
            Reply::text("The drill sings"),
            Reply::text("I do not help with that.").stop_reason(StopReason::Refusal),
        ])),
        example!("chat_session", || Script::anthropic([
            Reply::text("Hello Ada!"),
            Reply::text("Your name is Ada."),
            Reply::text("How do you like Oslo?"),
            Reply::text("You live in Oslo."),
        ])),
        example!("sqlite_session", || Script::anthropic([
            Reply::text("Mars"),
            Reply::text("Danube"),
            Reply::text("Lake Como"),
        ])),
        example!("image_and_pdf", || Script::anthropic([
            Reply::text("The logo is red, and the total is 42 EUR."),
            Reply::text("The photo shows a bridge."),
        ])),
        example!("image_from_tool", || Script::anthropic([
            Reply::tool_call("toolu_1", "screenshot", json!({ "window": "Settings" })),
            Reply::text("The window is red."),
        ])),
        example!("rag", || Script {
            // The documents, a question about a payment, and one about a parcel.
            openai_vectors: vec![
                vec![
                    vec![0.9, 0.1, 0.3, 0.1],
                    vec![0.1, 0.9, 0.1, 0.2],
                    vec![0.3, 0.1, 0.9, 0.1],
                    vec![0.1, 0.2, 0.1, 0.9],
                ],
                vec![vec![0.2, 0.5, 0.8, 0.1]],
                vec![vec![0.1, 0.8, 0.1, 0.3]],
            ],
            ..Script::anthropic([
                Reply::tool_call(
                    "toolu_1",
                    "search_documents",
                    json!({ "query": "parcel to Norway" })
                ),
                Reply::text("A parcel to Norway needs 5 days."),
            ])
        }),
    ]
}

/// Sets the number of input tokens that a reply reports.
fn used(input_tokens: usize, reply: Reply) -> Reply {
    reply.usage(tokens(input_tokens, 20))
}

fn read_log(id: &str, day: &str) -> Reply {
    Reply::tool_call(format!("toolu_{id}"), "read_log", json!({ "day": day }))
}

fn invoice(total_cents: u64) -> serde_json::Value {
    json!({
        "seller": "Bolt & Co.",
        "items": [{ "name": "screws", "cents": 1_250 }, { "name": "drill", "cents": 3_000 }],
        "total_cents": total_cents,
        "due": "2026-05-31",
    })
}
