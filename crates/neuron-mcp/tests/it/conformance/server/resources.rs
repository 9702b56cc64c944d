//! Resources that the MCP conformance suite requires.

use neuron_mcp::{McpResource, McpResourceContents, McpResourceSet, McpResourceTemplate};
use serde_json::json;

use super::tools::PNG;

pub(super) fn all() -> McpResourceSet {
    let resource = |uri: &str, name: &str, mime_type: &str| McpResource {
        description: Some(format!("What the suite knows as {name}.")),
        mime_type: Some(mime_type.to_owned()),
        ..McpResource::new(uri, name)
    };
    let template = McpResourceTemplate {
        description: Some("Data of any id.".to_owned()),
        mime_type: Some("application/json".to_owned()),
        ..McpResourceTemplate::new("test://template/{id}/data", "data")
    };
    McpResourceSet::new()
        .with_text(
            resource("test://static-text", "static-text", "text/plain"),
            "This is the content of the static text resource.",
        )
        .with_blob(resource("test://static-binary", "static-binary", "image/png"), PNG)
        .with_text(
            resource("test://watched-resource", "watched-resource", "text/plain"),
            "Somebody may watch this.",
        )
        .with_template(template, |request| async move {
            let id = &request.variables["id"];
            let data = format!("Data for ID: {id}");
            let text = json!({"id": id, "templateTest": true, "data": data}).to_string();
            let content = McpResourceContents::text(&request.uri, text);
            Ok(vec![content.with_mime_type("application/json")])
        })
}
