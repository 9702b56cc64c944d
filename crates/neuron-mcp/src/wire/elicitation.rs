//! Conversion of elicitation between our types and the SDK's.

use neuron_types::McpError;
use rmcp::model::{
    CustomNotification, ElicitRequestParams, ElicitResult, ElicitationAction, ServerNotification,
};
use serde_json::Value;

use crate::{ElicitationRequest, ElicitationResponse};

/// Converts a server's question.
pub(crate) fn request_from_sdk(sent: ElicitRequestParams) -> Result<ElicitationRequest, McpError> {
    Ok(match sent {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema)
                .map_err(|error| McpError::Other(Box::new(error)))?;
            ElicitationRequest::Form { message, schema }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            ElicitationRequest::Url { message, url, id: elicitation_id }
        }
        _ => return Err(McpError::Other("a way to ask that is not known".into())),
    })
}

/// Converts a question for the client.
///
/// # Errors
///
/// The schema is none that the protocol allows for a form.
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

/// Converts a client's answer.
pub(crate) fn response_from_sdk(result: ElicitResult) -> ElicitationResponse {
    match result.action {
        ElicitationAction::Accept => {
            ElicitationResponse::Accept(result.content.unwrap_or(Value::Null))
        }
        ElicitationAction::Decline => ElicitationResponse::Decline,
        // What is not known is neither a yes nor a no.
        _ => ElicitationResponse::Cancel,
    }
}

/// Converts an answer for the server.
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

/// Creates the notification that a person has finished on a page. The SDK has no type for it (specification of
/// 2025-11-25, elicitation).
pub(crate) fn completed(id: &str) -> ServerNotification {
    let params = serde_json::json!({ "elicitationId": id });
    ServerNotification::CustomNotification(CustomNotification::new(
        "notifications/elicitation/complete",
        Some(params),
    ))
}
