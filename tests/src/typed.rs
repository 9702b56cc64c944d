//! Tests typed runs with every provider over HTTP, in each output mode. The emulated vendor must accept the requests,
//! and the run must return the typed value.

use neuron::agent::OutputMode;
use neuron::anthropic::Anthropic;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply};
use serde_json::{Value, json};

/// An order
#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// Who ordered
    customer: String,
    items: Vec<Item>,
    note: Option<String>,
    #[serde(default)]
    urgent: bool,
    payment: Option<Payment>,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Item {
    /// At least one
    count: u32,
    price: f64,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
enum Payment {
    Cash,
    Card { number: String },
}

fn output() -> Value {
    json!({
        "customer": "Ada",
        "items": [{ "count": 2, "price": 1.5 }],
        "note": null,
        "urgent": true,
        "payment": { "Card": { "number": "4" } },
    })
}

fn order() -> Order {
    Order {
        customer: "Ada".into(),
        items: vec![Item { count: 2, price: 1.5 }],
        note: None,
        urgent: true,
        payment: Some(Payment::Card { number: "4".into() }),
    }
}

/// Returns two model responses in the form of the output mode `mode`. The value in the first response does not match
/// the schema, so the run sends a second request. The value in the second response matches.
fn replies(mode: OutputMode) -> [Reply; 2] {
    let wrong = json!({ "customer": "Ada" });
    [("c1", wrong), ("c2", output())].map(|(id, output)| match mode {
        OutputMode::Tool => Reply::tool_call(id, "final_output", output),
        _ => Reply::text(output.to_string()),
    })
}

const MODES: [OutputMode; 3] = [OutputMode::Tool, OutputMode::Native, OutputMode::Prompt];

async fn check(mode: OutputMode, provider: impl Provider + 'static) {
    let agent = Agent::builder(provider)
        .system_prompt("You take orders.")
        .config(|config| config.output_mode = mode)
        .build();
    let mut conversation = Conversation::new();
    let typed = agent.run(&mut conversation, "Two, for Ada.").typed::<Order>().await;
    let typed = typed.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
    assert_eq!(typed.output, order(), "{mode:?}");
    assert_eq!(typed.turns, 2);
}

#[tokio::test]
async fn anthropic_accepts_every_output_mode() {
    for mode in MODES {
        let server = AnthropicServer::start(replies(mode)).await.unwrap();
        check(mode, Anthropic::new(AnthropicServer::API_KEY).base_url(server.url())).await;
        let body = server.requests().remove(0).json.unwrap();
        let format = &body["output_config"]["format"];
        match mode {
            OutputMode::Native => assert_eq!(format["schema"]["additionalProperties"], false),
            _ => assert!(format.is_null()),
        }
    }
}

/// Checks OpenAI's Chat Completions API and its Responses API. The emulated server rejects a `strict` schema that
/// allows additional properties or has an optional property.
#[tokio::test]
async fn openai_apis_accept_every_output_mode_and_enforce_the_format() {
    for mode in MODES {
        for responses_api in [false, true] {
            let server = OpenAiServer::start(replies(mode)).await.unwrap();
            let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
            let provider = if responses_api { provider.responses_api() } else { provider };
            check(mode, provider).await;
            let body = server.requests().remove(0).json.unwrap();
            let format = match responses_api {
                true => &body["text"]["format"],
                false => &body["response_format"]["json_schema"],
            };
            match mode {
                OutputMode::Native => {
                    assert_eq!(
                        (&format["strict"], &format["name"]),
                        (&json!(true), &json!("Order"))
                    );
                }
                _ => assert!(format.is_null()),
            }
        }
    }
}

#[tokio::test]
async fn ollama_accepts_every_output_mode() {
    for mode in MODES {
        let server = OllamaServer::start(replies(mode)).await.unwrap();
        check(mode, Ollama::new().base_url(server.url())).await;
    }
}
