//! Conversion of input requests and their responses between the types of this crate and the types of the SDK `rmcp`.
#![expect(deprecated, reason = "roots and sampling are left to older versions of the protocol")]

use neuron_types::McpError;
use rmcp::model::{
    self, ClientCapabilities, CreateMessageRequest, CreateMessageResult, ElicitRequest,
    ElicitResult, ElicitationCapability, Extensions, FormElicitationCapability, GetExtensions,
    ListRootsRequest, ListRootsResult, RequestId, RequestMetaObject, RootsCapabilities,
    SamplingCapability, ServerRequest, UrlElicitationCapability,
};
use rmcp::service::OriginatingRequestId;
use serde::Deserialize as _;
use serde_json::Value;

use super::{elicitation, root, sampling, trace};
use crate::{ElicitationRequest, InputAnswer, InputRequest, TraceContext};

/// Converts a server's request for input to the SDK's type, for a result with `input_required` (MCP since 2026-07-28).
/// `trace` is the trace context for a request that has none of its own.
///
/// # Errors
///
/// Returns an error if the protocol does not allow the schema of a form.
pub(crate) fn request_to_sdk(
    request: &InputRequest,
    trace: Option<&TraceContext>,
) -> Result<model::InputRequest, McpError> {
    Ok(match request {
        InputRequest::Elicitation(request) => {
            let params = elicitation::request_to_sdk(request.clone())?;
            let mut request = ElicitRequest::new(params);
            set_trace(&mut request.extensions, trace);
            model::InputRequest::Elicitation(request)
        }
        InputRequest::Sampling(request) => {
            let trace = request.trace_context.as_ref().or(trace);
            let mut request = CreateMessageRequest::new(sampling::request_to_sdk(request));
            set_trace(&mut request.extensions, trace);
            model::InputRequest::CreateMessage(request)
        }
        InputRequest::Roots => {
            let mut request = ListRootsRequest::default();
            set_trace(&mut request.extensions, trace);
            model::InputRequest::ListRoots(request)
        }
    })
}

/// Sets the trace context of a request, in the metadata that the SDK keeps in the request's extensions. Does nothing if
/// `trace` is `None`.
pub(crate) fn set_trace(extensions: &mut Extensions, trace: Option<&TraceContext>) {
    if let Some(trace) = trace {
        let mut meta = RequestMetaObject::new();
        trace::to_meta(trace, &mut meta);
        extensions.insert(meta);
    }
}

/// Returns the trace context of an input request. Returns `None` if the server sent no trace context.
pub(crate) fn trace_of(extensions: &Extensions) -> Option<TraceContext> {
    trace::from_meta(extensions.get::<RequestMetaObject>()?)
}

/// Converts a request for input to a separate JSON-RPC request of the server (MCP before 2026-07-28). Returns `None`
/// for an unknown kind of input.
///
/// `belongs_to` is the id of the client request during which the server sends this request. It is set explicitly,
/// because the SDK knows it only inside the task of the client request. A tool may use another task.
pub(crate) fn to_server_request(
    request: model::InputRequest,
    belongs_to: &RequestId,
) -> Option<ServerRequest> {
    let mut request = match request {
        model::InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        model::InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        model::InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return None,
    };
    request.extensions_mut().insert(OriginatingRequestId(belongs_to.clone()));
    Some(request)
}

/// Parses a client's response to a request for input. Returns `None` if the JSON does not fit the kind of request.
pub(crate) fn answer_from_json(request: &InputRequest, answer: &Value) -> Option<InputAnswer> {
    Some(match request {
        InputRequest::Elicitation(_) => {
            let result = ElicitResult::deserialize(answer).ok()?;
            InputAnswer::Elicitation(elicitation::response_from_sdk(result))
        }
        InputRequest::Sampling(_) => {
            let result = CreateMessageResult::deserialize(answer).ok()?;
            InputAnswer::Sampling(Box::new(sampling::response_from_sdk(result)))
        }
        InputRequest::Roots => {
            let result = ListRootsResult::deserialize(answer).ok()?;
            InputAnswer::Roots(root::from_sdk(result))
        }
    })
}

/// Returns the client capabilities that an input request requires.
pub(crate) fn required_capabilities(request: &InputRequest) -> ClientCapabilities {
    let mut required = ClientCapabilities::default();
    match request {
        InputRequest::Elicitation(ElicitationRequest::Form { .. }) => {
            let form = FormElicitationCapability::default();
            required.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        InputRequest::Elicitation(ElicitationRequest::Url { .. }) => {
            let url = UrlElicitationCapability::default();
            required.elicitation = Some(ElicitationCapability::new().with_url(url));
        }
        InputRequest::Sampling(request) => {
            let mut sampling = SamplingCapability::default();
            if !request.tools.is_empty() || request.tool_choice.is_some() {
                sampling.tools = Some(model::JsonObject::default());
            }
            required.sampling = Some(sampling);
        }
        InputRequest::Roots => required.roots = Some(RootsCapabilities::default()),
    }
    required
}
