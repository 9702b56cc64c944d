//! Generated code in a crate with strict lints.

#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    unreachable_pub,
    unused_qualifications,
    unused_results,
    unused_lifetimes,
    single_use_lifetimes,
    let_underscore_drop,
    non_ascii_idents,
    rust_2018_idioms,
    rust_2024_compatibility
)]
#![forbid(unsafe_code)]

use neuron_tool::{RunTool, Tool, neuron_tool};
use neuron_types::{ToolContext, ToolError};

/// Counts
#[neuron_tool(effect = Pure)]
pub async fn count(from: Option<u8>, ctx: &ToolContext) -> Result<u8, ToolError> {
    from.ok_or_else(|| ToolError::ModelRetry(ctx.session_id.clone()))
}

/// Takes nothing
#[neuron_tool]
pub async fn nothing() -> Result<(), ToolError> {
    Ok(())
}

/// Is allowed more
#[neuron_tool]
#[allow(non_snake_case)]
#[expect(unused_mut, reason = "an expectation is met by the function alone")]
pub async fn Odd(mut oneCase: u8, #[allow(unused_variables)] other: u8) -> Result<u8, ToolError> {
    Ok(oneCase)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Private {
    number: u8,
}

/// Takes what others cannot name
#[neuron_tool]
#[expect(private_interfaces, reason = "an expectation holds for the arguments' struct too")]
pub async fn secret(value: Private) -> Result<u8, ToolError> {
    Ok(value.number)
}

/// Names
#[derive(Debug, Tool, schemars::JsonSchema)]
pub struct Names {
    /// The name
    #[serde(default)]
    pub name: String,
}

impl RunTool for Names {
    type Output = String;
    type Error = ToolError;

    async fn run(self, _ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(self.name)
    }
}

fn main() {
    assert_eq!((CountTool::NAME, NothingTool::NAME, Names::NAME), ("count", "nothing", "names"));
}
