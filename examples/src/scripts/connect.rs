//! Scripts of the programs in the part "connect".

use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example};

/// Returns the replies of a run that asks for the weather in Oslo.
fn weather_in_oslo() -> [Reply; 2] {
    [
        Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Oslo" })),
        Reply::text("It is dry in Oslo, at 14 °C."),
    ]
}

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("mcp_tools", || Script::anthropic([
            Reply::tool_call("toolu_1", "order_status", json!({ "order": 42 })),
            Reply::text("Order 42 was shipped on Monday."),
        ])),
        example!("mcp_policy", || Script::anthropic([
            Reply::tool_call("toolu_1", "shop_price", json!({ "article": "lamp" })),
            Reply::text("The lamp costs 49.90 euros."),
            Reply::tool_call("toolu_2", "shop_price", json!({ "article": "chair" })),
            Reply::text("I may not look up this price now."),
        ])),
        example!("mcp_serve", Script::default),
        example!("mcp_axum", Script::default),
        example!("telemetry", || Script::anthropic(
            weather_in_oslo().into_iter().chain(weather_in_oslo())
        )),
        example!("telemetry_otlp", || Script::anthropic([Reply::text(
            "May is a dry month in Oslo."
        )])),
        example!("tracing_log", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Atlantis" })),
            Reply::text("I cannot find a city with this name."),
        ])),
        example!("http_service", || Script::anthropic([
            Reply::text("Hello Ada! How can I help you?"),
            Reply::text("Your name is Ada."),
            Reply::tool_call("toolu_1", "cancel_order", json!({ "order": 7 })),
            Reply::text("It is cancelled."),
        ])),
        example!("own_http_client", || Script {
            openai: vec![Reply::text("Hello from OpenAI.")],
            ..Script::anthropic([Reply::text("Hello from Anthropic.")])
        }),
    ]
}
