//! Conversion of resource templates between the types of this crate and the types of the SDK `rmcp`.

use rmcp::model::ResourceTemplate;

use crate::McpResourceTemplate;

/// Converts a resource template of a server's list.
pub(crate) fn template_from_sdk(template: ResourceTemplate) -> McpResourceTemplate {
    McpResourceTemplate {
        uri_template: template.uri_template,
        name: template.name,
        title: template.title,
        description: template.description,
        mime_type: template.mime_type,
    }
}

/// Converts a resource template for the list that a client receives.
pub(crate) fn template_to_sdk(template: &McpResourceTemplate) -> ResourceTemplate {
    let mut sent = ResourceTemplate::new(&template.uri_template, &template.name);
    sent.title.clone_from(&template.title);
    sent.description.clone_from(&template.description);
    sent.mime_type.clone_from(&template.mime_type);
    sent
}
