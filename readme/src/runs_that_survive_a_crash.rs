//! The example "Runs that survive a crash". Its tool appends a line to a file each time it runs, so the test can count
//! the executions.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Refunds an order.
#[neuron_tool]
async fn refund(
    /// The order
    order: u64,
) -> Result<String, ToolError> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open("refunds.txt");
    let written = file.and_then(|mut file| writeln!(file, "{order}"));
    written.map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?;
    Ok("refunded".into())
}

#[tokio::main]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let provider = Arc::new(Anthropic::from_env()?.base_url(crate::server()?));
    let mut tools = ToolRegistry::new();
    tools.register(RefundTool);
    include!(concat!(env!("OUT_DIR"), "/runs-that-survive-a-crash.rs"));
    Ok(())
}
