//! Scripts of the programs in the part "control".

use neuron::types::TokenUsage;
use neuron_testing::Reply;
use serde_json::json;

use super::{Example, Script, example, tokens};

pub(super) fn examples() -> Vec<Example> {
    vec![
        example!(
            "approval_prompt",
            || Script::anthropic([
                Reply::tool_calls([
                    ("toolu_1", "pay", json!({ "to": "Ann", "euros": 90 })),
                    ("toolu_2", "pay", json!({ "to": "Bob", "euros": 1200 })),
                    ("toolu_3", "pay", json!({ "to": "Eve", "euros": 5000 })),
                    ("toolu_4", "pay", json!({ "to": "Joe", "euros": 7300 })),
                ])
                .with_text("There are four open invoices."),
                Reply::text("Ann, Bob and Joe are paid. The payment to Eve was refused."),
            ]),
            "y\nn\n{\"to\": \"Joe\", \"euros\": 730}\n"
        ),
        example!("approval_later", || Script::anthropic([
            Reply::tool_calls([
                ("toolu_1", "delete_file", json!({ "path": "tmp/2025.log" })),
                ("toolu_2", "delete_file", json!({ "path": "logs/2025.log" })),
            ]),
            Reply::text("Both logs of 2025 are deleted."),
        ])),
        example!("approval_wait", || Script::anthropic([
            Reply::tool_call("toolu_1", "restart", json!({ "server": "web-1" })),
            Reply::text("web-1 is restarted."),
        ])),
        example!("budget", || Script::anthropic([
            Reply::tool_call("toolu_1", "search", json!({ "topic": "moss" })),
            Reply::tool_call("toolu_2", "search", json!({ "topic": "ferns" })),
            Reply::tool_call("toolu_3", "search", json!({ "topic": "trees" })),
            Reply::text(
                "There are three books about moss, and three about ferns. I did not look for trees."
            ),
            Reply::text("Moss has no roots.").usage(tokens(5_000, 1_000)),
            Reply::text("Too short.").usage(tokens(3_000, 500)),
        ])),
        example!("budget_in_money", || Script::anthropic([
            Reply::tool_call("toolu_1", "read_page", json!({ "page": 1 }))
                .usage(tokens(2_000, 500)),
            Reply::tool_call("toolu_2", "read_page", json!({ "page": 2 }))
                .usage(tokens(4_000, 500)),
            Reply::tool_call("toolu_3", "read_page", json!({ "page": 3 })).usage(tokens(6_000, 50)),
            Reply::text("Page 3 is about moss.").usage(tokens(7_000, 100)),
        ])),
        example!("cache_miss_detector", || {
            let cached = |read, written| TokenUsage {
                cache_read_tokens: Some(read),
                cache_creation_tokens: Some(written),
                ..tokens(6_100, 20)
            };
            Script::anthropic([
                Reply::text("Ferns need shade and moist soil.").usage(cached(0, 6_080)),
                Reply::text("Moss needs even more water.").usage(cached(0, 6_090)),
            ])
        }),
        example!("guardrails", || Script::anthropic([
            Reply::text("Support costs 10 euros per month."),
            Reply::text("Write to jane.doe@example.com."),
        ])),
        example!("loop_detector", || {
            let wait = (1..=4).map(|call| {
                Reply::tool_call(format!("toolu_w{call}"), "wait_for_build", json!({}))
            });
            let read = |run, calls| {
                (1..=calls).map(move |call| {
                    let id = format!("toolu_{run}{call}");
                    Reply::tool_call(id, "read_log", json!({ "job": "test" }))
                })
            };
            let answer = Reply::text("The log of the job `test` is empty, so I cannot say why.");
            Script::anthropic(wait.chain(read('a', 3)).chain([answer]).chain(read('b', 5)))
        }),
        example!("sandboxed_shell", || Script::anthropic([
            Reply::tool_call("toolu_1", "shell", json!({ "script": "wc -l < todo.txt" })),
            Reply::tool_call("toolu_2", "shell", json!({ "script": "cat ../secret.txt" })),
            Reply::tool_call(
                "toolu_3",
                "shell",
                json!({ "script": "touch out/done && echo 2 > out/count && ls out" })
            ),
            Reply::tool_call("toolu_4", "add_note", json!({ "text": "2 tasks" })),
            Reply::text("Two tasks are left. I cannot read the file outside of the project."),
        ])),
        example!("sub_agents", || Script::anthropic([
            Reply::tool_call("toolu_1", "researcher", json!({ "prompt": "Find out about ferns." }))
                .usage(tokens(500, 40)),
            Reply::tool_call("toolu_2", "search", json!({ "topic": "ferns" }))
                .usage(tokens(300, 20)),
            Reply::text("Ferns are older than trees.").usage(tokens(400, 30)),
            Reply::tool_call(
                "toolu_3",
                "writer",
                json!({ "prompt": "Ferns are older than trees." })
            )
            .usage(tokens(600, 40)),
            Reply::tool_call("toolu_4", "publish", json!({ "title": "Old and green" }))
                .usage(tokens(300, 20)),
            Reply::text("The article is published.").usage(tokens(400, 30)),
            Reply::text("Your article \"Old and green\" is published.").usage(tokens(700, 20)),
        ])),
        example!("sub_agents_only", || {
            // The researchers run at the same time, so all their responses are the same.
            let ask = |id, topic: &str| {
                (id, "researcher", json!({ "prompt": format!("Find out about {topic}.") }))
            };
            Script::anthropic([
                Reply::tool_calls([ask("toolu_1", "ferns"), ask("toolu_2", "mosses")]),
                Reply::text("It is older than trees."),
                Reply::text("It is older than trees."),
                Reply::text("Ferns and mosses are both older than trees."),
            ])
        }),
        example!("sub_agents_from_code", || Script::anthropic([
            Reply::text("Ferns are older than trees."),
            Reply::text("Les fougères sont plus anciennes que les arbres."),
        ])),
    ]
}
