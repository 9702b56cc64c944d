//! Conversion of elicitation between the types of this crate and the types of the SDK `rmcp`.

use neuron_types::McpError;
use rmcp::model::{
    CustomNotification, ElicitRequestParams, ElicitResult, ElicitationAction, ServerNotification,
};
use serde_json::Value;

use crate::client::page_url::page_url;
use crate::text::{clean_schema, cleaned};
use crate::{ElicitationRequest, ElicitationResponse};

/// Converts an elicitation request that a server sent. Removes hidden characters from its texts. Returns an error if the
/// mode of the elicitation is unknown, or if the URL of a page is not allowed.
pub(crate) fn request_from_sdk(sent: ElicitRequestParams) -> Result<ElicitationRequest, McpError> {
    Ok(match sent {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let mut schema = serde_json::to_value(requested_schema)
                .map_err(|error| McpError::Other(Box::new(error)))?;
            clean_schema(&mut schema);
            ElicitationRequest::Form { message: cleaned(message), schema }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            let url = page_url(&url).map_err(|reason| McpError::Other(reason.into()))?;
            ElicitationRequest::Url { message: cleaned(message), url, id: elicitation_id }
        }
        _ => return Err(McpError::Other("unknown mode of elicitation".into())),
    })
}

/// Converts an elicitation request for sending to the client.
///
/// # Errors
///
/// Returns an error if the protocol does not allow the schema of a form.
pub(crate) fn request_to_sdk(request: ElicitationRequest) -> Result<ElicitRequestParams, McpError> {
    Ok(match request {
        ElicitationRequest::Form { message, schema } => {
            ElicitRequestParams::FormElicitationParams {
                meta: None,
                message,
                requested_schema: serde_json::from_value(schema)
                    .map_err(|error| McpError::Other(Box::new(error)))?,
            }
        }
        ElicitationRequest::Url { message, url, id } => ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message,
            url,
            elicitation_id: id,
        },
    })
}

/// Converts a client's response to an elicitation request.
pub(crate) fn response_from_sdk(result: ElicitResult) -> ElicitationResponse {
    match result.action {
        ElicitationAction::Accept => {
            ElicitationResponse::Accept(result.content.unwrap_or(Value::Null))
        }
        ElicitationAction::Decline => ElicitationResponse::Decline,
        // An unknown action is neither consent nor refusal.
        _ => ElicitationResponse::Cancel,
    }
}

/// Converts the user's response to an elicitation request for the server.
pub(crate) fn response_to_sdk(response: ElicitationResponse) -> ElicitResult {
    let (action, content) = match response {
        ElicitationResponse::Accept(Value::Null) => (ElicitationAction::Accept, None),
        ElicitationResponse::Accept(content) => (ElicitationAction::Accept, Some(content)),
        ElicitationResponse::Decline => (ElicitationAction::Decline, None),
        ElicitationResponse::Cancel => (ElicitationAction::Cancel, None),
    };
    let mut result = ElicitResult::new(action);
    result.content = content;
    result
}

/// Creates the notification that the user has completed an elicitation on a web page. `id` is the id of the
/// elicitation. The SDK has no type for this notification (MCP specification 2025-11-25, "Elicitation").
pub(crate) fn completed(id: &str) -> ServerNotification {
    let params = serde_json::json!({ "elicitationId": id });
    ServerNotification::CustomNotification(CustomNotification::new(
        "notifications/elicitation/complete",
        Some(params),
    ))
}
