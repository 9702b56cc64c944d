//! Conversion of listed resources and resource templates between the types of this crate and the types of the SDK
//! `rmcp`.

use rmcp::model::{Resource, ResourceTemplate};

use super::content;
use crate::text::{cleaned, cleaned_name};
use crate::{McpResource, McpResourceTemplate};

/// Converts a resource of a server's list. Removes hidden characters from its texts.
pub(crate) fn from_sdk(resource: Resource) -> McpResource {
    let resource = content::link_from_sdk(resource);
    McpResource {
        name: cleaned_name(resource.name),
        title: resource.title.map(cleaned_name),
        description: resource.description.map(cleaned),
        ..resource
    }
}

/// Converts a resource template of a server's list. Removes hidden characters from its texts.
pub(crate) fn template_from_sdk(template: ResourceTemplate) -> McpResourceTemplate {
    McpResourceTemplate {
        uri_template: template.uri_template,
        name: cleaned_name(template.name),
        title: template.title.map(cleaned_name),
        description: template.description.map(cleaned),
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
