//! Gives an agent 300 tools, of which the model sees one and searches for the others.

use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::tool::ToolSearch;
use neuron::types::{ToolDyn, WasmBoxedFuture};
use serde_json::{Value, json};

/// Returns the name of the customer who is on the phone.
#[neuron_tool(effect = Pure)]
async fn current_customer() -> Result<String, ToolError> {
    Ok("Ada".into())
}

/// A tool of another system. The tools of MCP servers are deferred in the same way.
struct Remote {
    definition: ToolDefinition,
}

impl ToolDyn for Remote {
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
        // The tool, its hooks and the permission policy receive the tool's own name and arguments.
        println!("{} {input}", self.name());
        Box::pin(async move { Ok(ToolOutput::text("done")) })
    }
}

/// Returns the tools of another system.
fn remote_tools() -> Result<Vec<Remote>, serde_json::Error> {
    let objects = (1..=98).map(|number| format!("report_{number}"));
    let objects = objects.chain(["ticket".into(), "invoice".into()]);
    let actions = [("create", "Creates"), ("close", "Closes"), ("find", "Finds")];
    let tool = |object: &str, (name, verb): (&str, &str)| {
        let definition = json!({
            "name": format!("{name}_{object}"),
            "description": format!("{verb} a {object} of a customer"),
            "input_schema": {
                "type": "object",
                "properties": { "customer": { "type": "string" } },
                "required": ["customer"],
            },
        });
        Ok(Remote { definition: serde_json::from_value(definition)? })
    };
    objects.flat_map(|object| actions.map(|action| tool(&object, action))).collect()
}

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(CurrentCustomerTool);
    for tool in remote_tools()? {
        tools.try_register_dyn(Arc::new(tool))?;
    }
    let all = serde_json::to_string(&tools.definitions())?.len();

    // The model sees the tools that are named here, and two tools with which it finds and calls the others.
    tools.defer_tools(ToolSearch::new().visible(["current_customer"]).max_results(2))?;
    for tool in tools.visible_definitions() {
        println!("visible: {}", tool.name);
    }
    let visible = serde_json::to_string(&tools.visible_definitions())?.len();
    println!("{} tools: {visible} instead of {all} bytes", tools.len());

    let agent = Agent::builder(Anthropic::from_env()?).tools(tools.clone()).build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Open a ticket for this customer.").await?;
    println!("found: {}", tools.found_tools(conversation.messages()).join(", "));
    println!("{}", result.response);

    // The found tools are part of the conversation, so another process knows them too.
    let stored = serde_json::to_string(&conversation)?;
    let mut loaded: Conversation = serde_json::from_str(&stored)?;
    let result = agent.run(&mut loaded, "Close it again.").await?;
    println!("{}", result.response);
    Ok(())
}
// ANCHOR_END: main
