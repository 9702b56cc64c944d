//! Scripts of the programs about durable runs and the control of a run.

use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("durable_run", || Script::anthropic([
            Reply::tool_call("toolu_1", "charge_card", json!({ "euros": 30 })),
            Reply::tool_call("toolu_2", "send_receipt", json!({})),
            Reply::text("The card is charged, and the receipt is sent."),
        ])),
        example!("unknown_outcome", || Script::anthropic([
            Reply::tool_call("toolu_1", "charge_card", json!({ "euros": 30 })),
            Reply::tool_call("toolu_2", "list_charges", json!({})),
            Reply::text("The card is charged with 30 EUR."),
        ])),
        example!("continue_session", || Script::anthropic([
            Reply::tool_call("toolu_1", "charge_card", json!({ "euros": 30 })),
            Reply::tool_call("toolu_2", "send_receipt", json!({})),
            Reply::text("The card is charged, and the receipt is sent."),
        ])),
        example!("new_code", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_stock", json!({ "item": "umbrella" })),
            Reply::tool_call("toolu_2", "get_stock", json!({ "item": "umbrella" })),
            Reply::text("There are 7 umbrellas."),
            Reply::text("There are 7 umbrellas. Shall I order more?"),
        ])),
        example!("agent_version", || Script::anthropic([Reply::text("2 + 2 is 4.")])),
        example!("run_pool", || Script::anthropic([
            Reply::text("The warranty is two years."),
            Reply::tool_call("toolu_1", "refund", json!({ "euros": 30 })),
            Reply::text("You get your 30 EUR back."),
        ])),
        example!("pool_agents", || Script::anthropic([
            Reply::text("You are Ada."),
            Reply::text("You are Grace."),
        ])),
        example!("restate_service", || Script::default()),
        example!("cancel", || Script::anthropic([
            Reply::tool_call("toolu_1", "create_report", json!({ "month": "May" })),
            Reply::text("The capital of Peru is Lima."),
            Reply::tool_call("toolu_2", "create_report", json!({ "month": "June" })),
        ])),
        example!("steps", || Script::anthropic([
            Reply::tool_call("toolu_1", "search", json!({ "query": "umbrellas" })),
            Reply::text("The archive has three documents about umbrellas."),
        ])),
        example!("fork", || Script::anthropic([
            Reply::text("Start in the Alfama."),
            Reply::text("Walk up to the castle."),
            Reply::text("Visit the Tile Museum."),
            Reply::text("Drink a coffee in the Chiado."),
        ])),
    ]
}
