//! Conversion of completions between the types of this crate and the types of the SDK `rmcp`.

use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, CompletionContext, CompletionInfo, Reference,
};

use crate::{CompletionQuery, CompletionTarget, McpCompletion};

/// Converts a completion query for a request to the server.
pub(crate) fn query_to_sdk(query: CompletionQuery) -> CompleteRequestParams {
    let reference = match query.target {
        CompletionTarget::Prompt(name) => Reference::for_prompt(name),
        CompletionTarget::Resource(uri) => Reference::for_resource(uri),
    };
    let mut sent =
        CompleteRequestParams::new(reference, ArgumentInfo::new(query.argument, query.value));
    if !query.context.is_empty() {
        sent.context = Some(CompletionContext::with_arguments(query.context.into_iter().collect()));
    }
    sent
}

/// Converts the completion query of a client. Returns `None` if the query is neither for a prompt nor for a resource.
pub(crate) fn query_from_sdk(sent: CompleteRequestParams) -> Option<CompletionQuery> {
    let target = match sent.r#ref {
        Reference::Prompt(prompt) => CompletionTarget::Prompt(prompt.name),
        Reference::Resource(resource) => CompletionTarget::Resource(resource.uri),
        _ => return None,
    };
    let arguments = sent.context.and_then(|context| context.arguments).unwrap_or_default();
    let mut context: Vec<(String, String)> = arguments.into_iter().collect();
    // Sorted, because the SDK's map has no defined order.
    context.sort();
    Some(CompletionQuery {
        target,
        argument: sent.argument.name,
        value: sent.argument.value,
        context,
    })
}

/// Converts the completion that a server returned.
pub(crate) fn from_sdk(info: CompletionInfo) -> McpCompletion {
    McpCompletion { values: info.values, total: info.total, has_more: info.has_more }
}

/// Converts a completion for the client. Values beyond the protocol's maximum of 100 are removed.
pub(crate) fn to_sdk(mut completion: McpCompletion) -> CompletionInfo {
    let mut info = CompletionInfo::default();
    if completion.values.len() > CompletionInfo::MAX_VALUES {
        completion.values.truncate(CompletionInfo::MAX_VALUES);
        completion.has_more = Some(true);
    }
    info.values = completion.values;
    info.total = completion.total;
    info.has_more = completion.has_more;
    info
}
