//! Tools in a crate that renames `neuron-tool` and has no serde or schemars.

// The name in the code that the macro generates.
extern crate tools as neuron_tool;

use std::io::Error;

use tools::{ToolRegistry, neuron_tool};

/// Adds two numbers
#[neuron_tool]
pub async fn add(a: i64, #[serde(default)] b: i64) -> Result<i64, Error> {
    Ok(a + b)
}

/// Registers the tool.
pub fn register(registry: &mut ToolRegistry) {
    registry.register(AddTool);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn macro_uses_the_renamed_crate() {
        let mut registry = ToolRegistry::new();
        register(&mut registry);
        let input = r#"{ "a": 1 }"#.parse().unwrap();
        let output = registry.execute("add", input, &Default::default()).await.unwrap();
        assert_eq!(output.content[0].to_string(), "1");
        assert_eq!(registry.definitions()[0].input_schema["required"][0], "a");
    }
}
