//! Defines a tool by a JSON Schema at run time, and makes the model call it first.

use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::{ToolChoice, ToolDyn, WasmBoxedFuture};
use serde_json::{Value, json};

/// A tool whose definition is known only at run time.
struct Dynamic {
    definition: ToolDefinition,
}

impl ToolDyn for Dynamic {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match input.get("code").and_then(Value::as_str) {
                Some("SPRING") => Ok(ToolOutput::text("10 percent off")),
                // The model sees a failed call, and has no reason to call again.
                Some(_) => Ok(ToolOutput::error("the code has expired")),
                None => Err(ToolError::ModelRetry("`$.code`: expected a string".into())),
            }
        })
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // Such a text may come from a file or a database.
    let definition: ToolDefinition = serde_json::from_value(json!({
        "name": "check_code",
        "description": "Returns the discount of a code.",
        "input_schema": {
            "type": "object",
            "properties": { "code": { "type": "string" } },
            "required": ["code"],
        },
    }))?;
    let mut tools = ToolRegistry::new();
    tools.try_register_dyn(Arc::new(Dynamic { definition }))?;

    // Calls the tool without a model, for example in a test.
    let input = json!({ "code": "SPRING" });
    let output = tools.execute("check_code", input, &ToolContext::default()).await?;
    for item in &output.content {
        println!("without a model: {item}");
    }

    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .prepare_turn(|turn| {
            // The first response must call the tool. Later responses need not call a tool.
            if turn.run.turns == 0 {
                let name = "check_code".into();
                turn.settings.tool_choice = Some(ToolChoice::Specific { name });
            }
        })
        .build();

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "My code is WINTER.").await?;
    println!("{}", result.response);
    Ok(())
}
