//! Prompts that the MCP conformance suite requires.

use neuron_mcp::{
    ElicitationRequest, McpPrompt, McpPromptArgument, McpPromptMessage, McpPromptResult,
    McpPromptSet, McpResourceContents,
};
use neuron_types::{ContentItem, Role};
use serde_json::json;

use super::inputs::{form, told};
use super::tools::image;

pub(super) fn all() -> McpPromptSet {
    McpPromptSet::new()
        .with_prompt(prompt("test_simple_prompt", &[]), |_| async {
            Ok(result(vec![McpPromptMessage::user("This is a simple prompt for testing.")]))
        })
        .with_prompt(
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            |request| async move {
                let [one, other] = ["arg1", "arg2"].map(|name| &request.arguments[name]);
                let text = format!("Prompt with arguments: arg1='{one}', arg2='{other}'");
                Ok(result(vec![McpPromptMessage::user(text)]))
            },
        )
        .with_completion("test_prompt_with_arguments", "arg1", |query| {
            let known = ["paris", "park", "party", "testValue1"].iter();
            known.filter(|name| name.starts_with(&query.value)).map(ToString::to_string).collect()
        })
        .with_prompt(
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            |request| async move {
                let uri = &request.arguments["resourceUri"];
                let text = "Embedded resource content for testing.";
                let resource = McpResourceContents::text(uri, text).with_mime_type("text/plain");
                Ok(result(vec![
                    user(ContentItem::Resource { resource }),
                    McpPromptMessage::user("Please process the embedded resource above."),
                ]))
            },
        )
        .with_prompt(prompt("test_prompt_with_image", &[]), |_| async {
            Ok(result(vec![
                user(image()),
                McpPromptMessage::user("Please analyze the image above."),
            ]))
        })
        .with_prompt(prompt("test_input_required_result_prompt", &[]), |request| async move {
            let question = ElicitationRequest::form(
                "What context should the prompt use?",
                form(json!({"context": {"type": "string"}})),
            );
            let context = request.peer.elicit("user_context", question).await?;
            Ok(result(vec![McpPromptMessage::user(told(&context))]))
        })
}

fn prompt(name: &str, arguments: &[&str]) -> McpPrompt {
    let argument = |name: &&str| McpPromptArgument {
        name: (*name).to_owned(),
        description: Some(format!("What the suite knows as {name}.")),
        required: true,
    };
    McpPrompt {
        description: Some(format!("What the suite knows as {name}.")),
        arguments: arguments.iter().map(argument).collect(),
        ..McpPrompt::new(name)
    }
}

fn result(messages: Vec<McpPromptMessage>) -> McpPromptResult {
    McpPromptResult { messages, ..Default::default() }
}

fn user(content: ContentItem) -> McpPromptMessage {
    McpPromptMessage { role: Role::User, content }
}
