//! Scripts of the programs in the part "comparison".

use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("come_from_rig", || Script {
            openai: vec![
                Reply::tool_call("call_1", "subtract", json!({ "x": 2, "y": 5 })),
                Reply::text("2 - 5 is -3."),
                Reply::tool_call("call_2", "final_output", json!({ "name": "Ada", "age": 36 })),
            ],
            ..Script::default()
        }),
        example!("come_from_clients", || Script {
            openai: vec![
                Reply::text("Air scatters blue light more than red light."),
                Reply::text("The light's way through the air is longer then."),
                Reply::tool_call("call_1", "get_weather", json!({ "city": "Tokyo" })),
                Reply::text("It is sunny in Tokyo, at 22 °C."),
            ],
            ..Script::default()
        }),
        example!("own_loop", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Tokyo" })),
            Reply::text("It is sunny in Tokyo."),
            Reply::tool_call("toolu_2", "get_weather", json!({ "city": "Tokyo" })),
            Reply::text("It is sunny in Tokyo."),
        ])),
        example!("come_from_pydantic_ai", || Script::anthropic([
            Reply::tool_call("toolu_1", "order_state", json!({ "order": 42 })),
            Reply::tool_call(
                "toolu_2",
                "final_output",
                json!({ "advice": "Send one of the parcels back.", "refundable": true }),
            ),
            Reply::tool_call("toolu_3", "refund", json!({ "order": 42 })),
            Reply::text("Order 42 is refunded."),
        ])),
        example!("come_from_openai_agents", || Script {
            openai: vec![
                Reply::tool_call("call_1", "transfer_to_billing", json!({})),
                Reply::tool_call("call_2", "refund", json!({ "order": 42 })),
                Reply::text("The second payment is on its way back."),
                Reply::tool_call("call_3", "translator", json!({ "prompt": "Good morning" })),
                Reply::text("Bonjour"),
                Reply::text("Bonjour!"),
            ],
            ..Script::default()
        }),
    ]
}
