//! Conversion of completions between our types and the SDK's.

use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, CompletionContext, CompletionInfo, Reference,
};

use crate::{CompletionQuery, CompletionTarget, McpCompletion};

/// A question as it is sent.
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

/// Converts a client's query. `None` if its target is unknown.
pub(crate) fn query_from_sdk(sent: CompleteRequestParams) -> Option<CompletionQuery> {
    let target = match sent.r#ref {
        Reference::Prompt(prompt) => CompletionTarget::Prompt(prompt.name),
        Reference::Resource(resource) => CompletionTarget::Resource(resource.uri),
        _ => return None,
    };
    let arguments = sent.context.and_then(|context| context.arguments).unwrap_or_default();
    let mut context: Vec<(String, String)> = arguments.into_iter().collect();
    context.sort();
    Some(CompletionQuery {
        target,
        argument: sent.argument.name,
        value: sent.argument.value,
        context,
    })
}

/// An answer of a server.
pub(crate) fn from_sdk(info: CompletionInfo) -> McpCompletion {
    McpCompletion { values: info.values, total: info.total, has_more: info.has_more }
}

/// Converts a completion for the client, with at most as many values as the protocol allows.
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
