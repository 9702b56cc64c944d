//! Tools in a crate that depends only on the renamed umbrella crate.

// The name in the code that the macros generate. The tool `Negate` uses the option instead.
extern crate agents as neuron;

use agents::prelude::*;

/// Adds two numbers
#[neuron_tool]
pub async fn add(a: i64, ctx: &ToolContext, b: i64) -> Result<i64, ToolError> {
    if ctx.cancellation_token.is_cancelled() { Ok(0) } else { Ok(a + b) }
}

/// Negates a number
#[derive(Debug, Tool, schemars::JsonSchema)]
#[tool(crate = agents::tool)]
pub struct Negate {
    /// The number
    pub number: i64,
}

impl RunTool for Negate {
    type Output = i64;
    type Error = ToolError;

    async fn run(self, _ctx: &ToolContext) -> Result<i64, ToolError> {
        Ok(-self.number)
    }
}

/// Registers the tools.
pub fn register(registry: &mut ToolRegistry) {
    registry.register(AddTool);
    registry.register(NegateTool);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn macros_use_the_crate_in_the_umbrella() {
        let mut registry = ToolRegistry::new();
        register(&mut registry);
        for (name, input, expected) in
            [("add", r#"{ "a": 1, "b": 2 }"#, "3"), ("negate", r#"{ "number": 2 }"#, "-2")]
        {
            let ctx = ToolContext::default();
            let output = registry.execute(name, input.parse().unwrap(), &ctx).await.unwrap();
            assert_eq!(output.content[0].to_string(), expected);
        }
    }

    /// The tool is of a crate that renames `neuron-tool`.
    #[tokio::test]
    async fn macro_uses_the_renamed_crate() {
        let mut registry = ToolRegistry::new();
        neuron_tool_macros_renamed::register(&mut registry);
        let input = r#"{ "a": 1 }"#.parse().unwrap();
        let ctx = ToolContext::default();
        let output = registry.execute("add", input, &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "1");
        assert_eq!(registry.definitions()[0].input_schema["required"][0], "a");
    }
}
