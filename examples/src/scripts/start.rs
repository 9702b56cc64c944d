//! Scripts of the programs in the part "Start" and of the pages about tools.

use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!("first_agent", || Script::anthropic([Reply::text(
            "Rust is a systems programming language."
        )])),
        example!("first_tool", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Tokyo" })),
            Reply::text("It is sunny in Tokyo, at 22 °C."),
        ])),
        example!("streaming", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Tokyo" }))
                .with_text("Let me look that up."),
            Reply::text("It is sunny in Tokyo, at 22 °C."),
        ])),
        example!(
            "chat",
            || Script::anthropic([Reply::text("12"), Reply::text("24")]),
            "What is 3 times 4?\nAnd twice that?\n"
        ),
        example!("tool_kinds", || Script::anthropic([
            Reply::tool_call("toolu_1", "get_price", json!({ "article": "pencil" })),
            Reply::tool_call("toolu_2", "get_price", json!({ "article": "pen" })),
            Reply::tool_call("toolu_3", "take_pens", json!({ "order": 42, "pens": 2 })),
            Reply::tool_call("toolu_4", "place_order", json!({ "article": "pen", "pieces": 2 })),
            Reply::text("There are no pencils, so I ordered two pens for 5 euros."),
        ])),
        example!("dynamic_tool", || Script::anthropic([
            Reply::tool_call("toolu_1", "check_code", json!({ "code": "WINTER" })),
            Reply::text("Your code has expired."),
        ])),
        example!("deferred_tools", || {
            let call = |id: &str, name: &str| {
                let input = json!({ "name": name, "arguments": { "customer": "Ada" } });
                Reply::tool_call(id, "call_tool", input)
            };
            Script::anthropic([
                Reply::tool_calls([
                    ("toolu_1", "current_customer", json!({})),
                    ("toolu_2", "search_tools", json!({ "query": "open a ticket" })),
                ]),
                call("toolu_3", "create_ticket"),
                Reply::text("I opened a ticket for Ada."),
                call("toolu_4", "close_ticket"),
                Reply::text("The ticket is closed."),
            ])
        }),
        example!("tool_middleware", || Script::anthropic([
            Reply::tool_call("toolu_1", "fetch_page", json!({ "url": 7 })),
            Reply::tool_call("toolu_2", "fetch_page", json!({ "url": "http://example.com" })),
            Reply::tool_call("toolu_3", "fetch_page", json!({ "url": "https://example.com" })),
            Reply::tool_call("toolu_4", "fetch_page", json!({ "url": "https://example.com" })),
            Reply::tool_call("toolu_5", "translate", json!({ "text": "Hallo" })),
            Reply::text("The page has a long text."),
        ])),
    ]
}
