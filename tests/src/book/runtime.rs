//! Tests the chapter of neuron's book on the runtime. Each section of the chapter has a module.

mod durability;
mod guardrails;
mod permissions;
mod sandbox;
mod sessions;
mod tracing;

pub(crate) use guardrails::NoSecrets;
use neuron_types::{Tool, ToolContext, ToolDefinition, ToolError};

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct ShoutArgs {
    text: String,
}

pub(crate) struct Shout;

impl Tool for Shout {
    const NAME: &'static str = "shout";
    type Args = ShoutArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "shout".into(),
            title: None,
            description: "Shouts".into(),
            input_schema: schemars::schema_for!(ShoutArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: ShoutArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(args.text.to_uppercase())
    }
}
