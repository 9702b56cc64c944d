//! Reads a list of tools from a JSON response that the SDK cannot parse, because a schema is nested too deeply.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};

use super::session_client::{Headers, HttpError, SessionHttpClient};
use crate::client::deep_tools::without_deep_tools;

/// Returns `true` if the request `message` asks for a list of tools, and its JSON response was nested too deeply.
pub(super) fn is_deep_list(message: &ClientJsonRpcMessage, error: &HttpError) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    // The SDK quotes the parser's error.
    matches!(request.request, ClientRequest::ListToolsRequest(_))
        && matches!(error, StreamableHttpError::UnexpectedServerResponse(text)
            if text.contains("recursion limit exceeded"))
}

impl SessionHttpClient {
    /// Sends a request for a list of tools again, and returns its response without the tools that are nested too deeply.
    /// Returns `None` if the second response cannot be read either.
    ///
    /// The SDK parses a JSON response itself and does not return its text. Reading a list twice has no effects. Servers refuse a
    /// request that does not accept both kinds of responses.
    pub(super) async fn list_again(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: Headers,
    ) -> Option<StreamableHttpPostResponse> {
        let body = serde_json::to_vec(message).ok()?;
        let exchange = self.authorization.send(|token| {
            let request = self.client.post(uri).body(body.clone());
            let request = request.headers(headers.clone().into_iter().collect());
            let request = request.header(CONTENT_TYPE, "application/json");
            let request = request.header(ACCEPT, "text/event-stream, application/json");
            let request = match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            };
            let request = match &session {
                Some(session) => request.header(HEADER_SESSION_ID, &**session),
                None => request,
            };
            async move {
                let mut response = request.send().await?.error_for_status()?;
                let mut text = Vec::new();
                while let Some(chunk) = response.chunk().await? {
                    text.extend_from_slice(&chunk);
                    if text.len() > self.max_message_bytes {
                        return Ok(None);
                    }
                }
                Ok(Some(text))
            }
        });
        let text = self.unless_ended(exchange).await.ok()??;
        let shorter = without_deep_tools(std::str::from_utf8(&text).ok()?)?;
        let response = serde_json::from_str(&shorter).ok()?;
        Some(StreamableHttpPostResponse::Json(response, session.map(|id| id.to_string())))
    }
}
