//! Defines a tool as a function, as a struct of arguments, and as a struct with state.

// ANCHOR: function
use std::sync::atomic::{AtomicU32, Ordering};

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::{ToolAnnotations, ToolEffect};
use serde_json::json;

/// The prices of a shop, in euros. The caller of a run passes them to the tools.
struct Prices(Vec<(&'static str, f64)>);

/// Returns the price of an article, in euros.
#[neuron_tool(effect = Pure)]
async fn get_price(
    /// The article in the singular, for example "pen"
    article: String,
    ctx: &ToolContext,
) -> Result<f64, ToolError> {
    let Some(Prices(prices)) = ctx.extensions.get::<Prices>() else {
        return Err(ToolError::ExecutionFailed("the context has no prices".into()));
    };
    match prices.iter().find(|(name, _)| *name == article) {
        Some((_, price)) => Ok(*price),
        // The model receives this hint, and can call the tool again.
        None => Err(ToolError::ModelRetry(format!("there is no article `{article}`"))),
    }
}
// ANCHOR_END: function

// ANCHOR: structure
/// Orders an article.
#[derive(Tool, schemars::JsonSchema)]
#[tool(effect = Idempotent)]
struct PlaceOrder {
    /// The article in the singular, for example "pen"
    article: String,
    /// Number of pieces, 1 if absent
    pieces: Option<u32>,
}

impl RunTool for PlaceOrder {
    type Output = serde_json::Value;
    type Error = ToolError;

    async fn run(self, _ctx: &ToolContext) -> Result<serde_json::Value, ToolError> {
        // A real tool would send `ctx.idempotency_key` to the shop, which accepts each key once.
        Ok(json!({ "ordered": self.article, "pieces": self.pieces.unwrap_or(1) }))
    }
}
// ANCHOR_END: structure

// ANCHOR: state
/// Takes pens from a stock.
struct TakePens {
    left: AtomicU32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct TakePensArgs {
    /// The number of the order
    order: u32,
    /// Number of pens
    pens: u32,
}

impl Tool for TakePens {
    const NAME: &'static str = "take_pens";
    type Args = TakePensArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Takes pens from the stock.".into(),
            input_schema: schemars::schema_for!(TakePensArgs).into(),
            output_schema: None,
            annotations: Some(ToolAnnotations {
                destructive_hint: Some(true),
                ..ToolAnnotations::default()
            }),
            cache_control: None,
        }
    }

    /// A call must not run twice. This is the default.
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// In a run with a journal, a second call for the same order returns the result of the first call.
    fn effect_key(&self, args: &TakePensArgs) -> Option<String> {
        Some(format!("pens for order {}", args.order))
    }

    async fn call(&self, args: TakePensArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        let take = |left: u32| left.checked_sub(args.pens);
        match self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Ok(before) => Ok(format!("{} pens left", before - args.pens)),
            Err(left) => Err(ToolError::ModelRetry(format!("there are only {left} pens"))),
        }
    }
}
// ANCHOR_END: state

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetPriceTool);
    tools.register(PlaceOrderTool);
    tools.register(TakePens { left: AtomicU32::new(5) });

    let mut ctx = ToolContext::default();
    ctx.extensions.insert(Prices(vec![("pen", 2.5), ("ruler", 1.0)]));

    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, "Order 42: two pencils.").context(&ctx);
    let mut events = run.stream();
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Event(StreamEvent::ToolResult { name, output, .. }) => {
                let text = output.content.iter().map(ToString::to_string).collect::<String>();
                println!("{name}: {text}");
            }
            RunEvent::Ended(result) => println!("{}", result.response),
            _ => {}
        }
    }
    Ok(())
}
// ANCHOR_END: main
