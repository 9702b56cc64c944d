//! Returns an image from a tool, so that the model sees it.

// ANCHOR: imports
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::ImageSource;
use schemars::JsonSchema;
use serde::Deserialize;
// ANCHOR_END: imports

/// A red pixel as a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\
    \x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\
    \x03AC\x00\x00\x00\x00IEND\xaeB`\x82";

// ANCHOR: tool
/// Takes a screenshot of a window.
struct Screenshot;

#[derive(Deserialize, JsonSchema)]
struct ScreenshotArgs {
    /// The title of the window
    window: String,
}

impl Tool for Screenshot {
    const NAME: &'static str = "screenshot";
    type Args = ScreenshotArgs;
    type Output = Vec<u8>;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Takes a screenshot of a window".into(),
            input_schema: schemars::schema_for!(ScreenshotArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: ScreenshotArgs, _ctx: &ToolContext) -> Result<Vec<u8>, ToolError> {
        match args.window.as_str() {
            "Settings" => Ok(PNG.to_vec()),
            title => Err(ToolError::ModelRetry(format!("there is no window `{title}`"))),
        }
    }

    fn map_output(&self, png: Vec<u8>) -> Result<ToolOutput, ToolError> {
        let image = ImageSource::from_bytes(png)
            .map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?;
        Ok(ToolOutput { content: vec![image.into()], structured_content: None, is_error: false })
    }
}
// ANCHOR_END: tool

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(Screenshot);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();

    let mut conversation = Conversation::new();
    let question = "What color is the window with the settings?";
    let result = agent.run(&mut conversation, question).await?;
    println!("{}", result.response);
    Ok(())
}
