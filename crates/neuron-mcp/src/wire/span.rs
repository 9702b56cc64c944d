//! Extraction of a span's [`Subject`] and [`Failure`] from the SDK's requests and responses.

use neuron_types::McpError;
use rmcp::model::{ClientRequest, Reference, ServerResult};

use crate::span::{Failure, Subject};
use crate::{McpCancelled, McpRequestError, McpTimeout};

/// Returns the method of a client's request and its tool, prompt or resource, for the request's span.
pub(crate) fn of_client_request(request: &ClientRequest) -> Subject<'_> {
    let method = request.method();
    match request {
        ClientRequest::CallToolRequest(call) => Subject::tool(method, &call.params.name),
        ClientRequest::GetPromptRequest(get) => Subject::prompt(method, &get.params.name),
        ClientRequest::ReadResourceRequest(read) => Subject::resource(method, &read.params.uri),
        ClientRequest::SubscribeRequest(asked) => Subject::resource(method, &asked.params.uri),
        ClientRequest::UnsubscribeRequest(asked) => Subject::resource(method, &asked.params.uri),
        ClientRequest::CompleteRequest(complete) => of_completion(method, &complete.params.r#ref),
        _ => Subject::method(method),
    }
}

/// Returns the method and target of a completion request, for its span. `target` is the prompt or resource template
/// whose argument is completed. The span names only prompts.
pub(crate) fn of_completion<'a>(method: &'a str, target: &'a Reference) -> Subject<'a> {
    match target {
        Reference::Prompt(prompt) => Subject::prompt(method, &prompt.name),
        _ => Subject::method(method),
    }
}

/// Returns [`Failure::TOOL`] if a tool has returned an error. Returns `None` for any other result.
pub(crate) fn failed_tool(result: &ServerResult) -> Option<Failure> {
    match result {
        ServerResult::CallToolResult(result) if result.is_error == Some(true) => {
            Some(Failure::TOOL)
        }
        ServerResult::CustomResult(result)
            if result.0.get("isError").is_some_and(|it| *it == true) =>
        {
            Some(Failure::TOOL)
        }
        _ => None,
    }
}

/// Returns the failure to record in the span of a request that failed with `error`.
pub(crate) fn failure(error: &McpError) -> Failure {
    match error {
        McpError::Transport(_) | McpError::Connection(_) => Failure::TRANSPORT,
        McpError::Other(error) => match error.downcast_ref::<McpRequestError>() {
            Some(refusal) => Failure::Code(refusal.code),
            None if error.is::<McpTimeout>() => Failure::TIMEOUT,
            None if error.is::<McpCancelled>() => Failure::CANCELLED,
            None => Failure::OTHER,
        },
        _ => Failure::OTHER,
    }
}
