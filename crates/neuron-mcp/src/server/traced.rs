//! [`Traced`], which creates a span for each request. Requests that the SDK rejects itself have no span.
#![expect(deprecated, reason = "logging and subscriptions of older versions of the protocol")]

use std::future::Future;
use std::sync::Arc;

use rmcp::model::{self, CallToolResponse, ErrorCode, ErrorData, InitializeResult};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::handler::Handler;
use super::peer::{route_of, version_of};
use super::serving::Serving;
use super::session::Closing;
use crate::span::{Failure, RequestSpan, Subject};
use crate::wire;

/// The span of the HTTP request that contains a JSON-RPC request. It becomes the parent of the JSON-RPC request's span.
#[derive(Clone)]
pub(crate) struct RequestParent(Span);

impl RequestParent {
    /// Captures the current span, which must be the span of the HTTP request.
    pub(crate) fn current() -> Self {
        Self(Span::current())
    }
}

/// A [`Handler`] that runs each request inside a span. Long-lived streams (`subscriptions/listen`), pings and
/// notifications have no span.
#[derive(Clone)]
pub(crate) struct Traced(Handler);

/// A request that is being handled, with its span.
struct Answering {
    /// Span of the request.
    span: RequestSpan,
    /// Cancelled when the client cancels the request.
    cancelled: CancellationToken,
    /// Set for protocol version 2026-07-28 and later.
    is_modern: bool,
}

impl Traced {
    /// Creates a handler for a new connection or HTTP session. Clones of the handler share its state.
    ///
    /// `transport` is the span attribute `network.transport`, such as `pipe`. Use `None` over HTTP and for the streams
    /// of [`McpServer::serve_io`](crate::McpServer::serve_io).
    pub(super) fn connect(serving: &Arc<Serving>, transport: Option<&'static str>) -> Self {
        Self(Handler::new(Arc::clone(serving), transport))
    }

    /// Returns the tokens that are cancelled when a connection over a pair of streams ends. They are never cancelled
    /// over HTTP.
    pub(crate) fn closing(&self) -> Closing {
        self.0.closing()
    }

    /// Starts the span of a request. Its parent is the client's span if the request has a trace context, or else the
    /// span of the HTTP server, if any.
    fn begin(&self, subject: &Subject<'_>, context: &mut RequestContext<RoleServer>) -> Answering {
        let version = version_of(context);
        let is_known = subject.method != "initialize";
        let route = route_of(context, self.0.session());
        // Removed from the extensions, because a tool may store its peer. The stored peer must not keep the span of the
        // HTTP request open.
        let request = context.extensions.get_mut::<::http::request::Parts>();
        let parent = request.and_then(|request| request.extensions.remove::<RequestParent>());
        let around = parent.as_ref().and_then(|RequestParent(span)| span.id());
        let span = RequestSpan::server(subject, is_known.then_some(version), &route, around);
        span.has_id(&context.id);
        if let Some(parent) = wire::trace::from_meta(&context.meta) {
            self.0.propagation().set_parent(span.span(), &parent);
        }
        Answering { span, cancelled: context.ct.clone(), is_modern: !version.has_handshake() }
    }
}

impl Answering {
    /// Handles the request inside its span. An error response is recorded as a failure of the span.
    async fn run<T>(
        self,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        self.run_and_look(work, |_, _| None).await
    }

    /// Handles the request inside its span. Calls `look` with a successful response. `look` may add fields to the span,
    /// and returns a failure that the span must record, if any.
    async fn run_and_look<T>(
        self,
        work: impl Future<Output = Result<T, ErrorData>>,
        look: impl FnOnce(&T, &Span) -> Option<Failure>,
    ) -> Result<T, ErrorData> {
        let Self { span, cancelled, is_modern } = self;
        let answer = work.instrument(span.to_enter()).await;
        let failure = match &answer {
            Ok(answer) => look(answer, span.span()),
            // The response of a cancelled request is not sent.
            Err(_) if cancelled.is_cancelled() => Some(Failure::CANCELLED),
            // The SDK replaces this error code when it sends the response. The span records the code that the client
            // receives.
            Err(error) if is_modern && error.code == ErrorCode::RESOURCE_NOT_FOUND => {
                Some(Failure::Code(ErrorCode::INVALID_PARAMS.0))
            }
            Err(error) => Some(Failure::Code(error.code.0)),
        };
        span.end(failure);
        answer
    }
}

/// Implements the methods of [`ServerHandler`] whose spans record no fields of the response.
macro_rules! in_spans {
    ($($method:ident($($request:ident: $Request:ty)?) -> $Answer:ty, $subject:expr;)*) => {$(
        async fn $method(
            &self,
            $($request: $Request,)?
            mut context: RequestContext<RoleServer>,
        ) -> Result<$Answer, ErrorData> {
            let answering = self.begin(&$subject, &mut context);
            answering.run(self.0.$method($($request,)? context)).await
        }
    )*};
}

impl ServerHandler for Traced {
    fn get_info(&self) -> model::ServerConfig {
        self.0.get_info()
    }

    in_spans! {
        discover() -> model::DiscoverResult, Subject::method("server/discover");
        set_level(request: model::SetLevelRequestParams) -> (), Subject::method("logging/setLevel");
        list_tools(request: Option<model::PaginatedRequestParams>) -> model::ListToolsResult,
            Subject::method("tools/list");
        list_resources(request: Option<model::PaginatedRequestParams>) -> model::ListResourcesResult,
            Subject::method("resources/list");
        list_resource_templates(request: Option<model::PaginatedRequestParams>)
            -> model::ListResourceTemplatesResult, Subject::method("resources/templates/list");
        read_resource(request: model::ReadResourceRequestParams) -> model::ReadResourceResponse,
            Subject::resource("resources/read", &request.uri);
        list_prompts(request: Option<model::PaginatedRequestParams>) -> model::ListPromptsResult,
            Subject::method("prompts/list");
        get_prompt(request: model::GetPromptRequestParams) -> model::GetPromptResponse,
            Subject::prompt("prompts/get", &request.name);
        complete(request: model::CompleteRequestParams) -> model::CompleteResult,
            wire::span::of_completion("completion/complete", &request.r#ref);
        get_task(request: model::GetTaskParams) -> model::GetTaskResult,
            Subject::method("tasks/get");
        update_task(request: model::UpdateTaskParams) -> (), Subject::method("tasks/update");
        cancel_task(request: model::CancelTaskParams) -> (), Subject::method("tasks/cancel");
        subscribe(request: model::SubscribeRequestParams) -> (),
            Subject::resource("resources/subscribe", &request.uri);
        unsubscribe(request: model::UnsubscribeRequestParams) -> (),
            Subject::resource("resources/unsubscribe", &request.uri);
    }

    async fn initialize(
        &self,
        request: model::InitializeRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answering = self.begin(&Subject::method("initialize"), &mut context);
        let work = self.0.initialize(request, context);
        // This request negotiates the protocol version, so the span can record the version only when the response is
        // ready.
        let agreed = |answer: &InitializeResult, span: &Span| {
            span.record("mcp.protocol.version", answer.protocol_version.as_str());
            None
        };
        answering.run_and_look(work, agreed).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.on_initialized(context).await;
    }

    fn get_tool(&self, name: &str) -> Option<model::Tool> {
        self.0.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: model::CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The client can choose any name for an unknown tool. Such a name is left out of the span's name, to bound the
        // number of span names.
        let is_known = self.0.has_tool(&request.name);
        let subject = Subject { is_known, ..Subject::tool("tools/call", &request.name) };
        let answering = self.begin(&subject, &mut context);
        let failed = |answer: &CallToolResponse, _: &Span| match answer {
            CallToolResponse::Complete(result) if result.is_error == Some(true) => {
                Some(Failure::TOOL)
            }
            _ => None,
        };
        answering.run_and_look(self.0.call_tool(request, context), failed).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &model::SubscriptionFilter,
    ) -> Option<model::SubscriptionFilter> {
        self.0.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.0.listen(context).await
    }

    async fn on_custom_request(
        &self,
        request: model::CustomRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<model::CustomResult, ErrorData> {
        // OpenTelemetry's conventions define the placeholder `_OTHER` for unknown methods.
        let is_known = self.0.knows(&request.method, &context);
        let method = if is_known { request.method.clone() } else { "_OTHER".to_owned() };
        let answering = self.begin(&Subject::method(&method), &mut context);
        answering.run(self.0.on_custom_request(request, context)).await
    }
}
