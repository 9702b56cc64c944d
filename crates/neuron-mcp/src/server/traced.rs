//! The spans of the requests that a server answers.
//!
//! What the SDK refuses by itself does not come here.
#![expect(deprecated, reason = "logging and subscriptions of older versions of the protocol")]

use std::future::Future;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::handler::Handler;
use super::peer::{route_of, version_of};
use super::session::Closing;
use crate::span::{Failure, RequestSpan, Subject};
use crate::wire;

/// The span in which an HTTP request came.
#[derive(Clone)]
pub(crate) struct RequestParent(Span);

impl RequestParent {
    pub(crate) fn current() -> Self {
        Self(Span::current())
    }
}

/// A handler whose requests have spans. Long-lived streams (`subscriptions/listen`), pings and notifications
/// have none.
#[derive(Clone)]
pub(crate) struct Traced(Handler);

/// A request that is being answered.
struct Answering {
    span: RequestSpan,
    cancelled: CancellationToken,
    is_modern: bool,
}

impl Traced {
    pub(crate) fn new(handler: Handler) -> Self {
        Self(handler)
    }

    /// What the end of the connection is told to.
    pub(crate) fn closing(&self) -> Closing {
        self.0.closing()
    }

    fn begin(&self, subject: &Subject<'_>, context: &mut RequestContext<RoleServer>) -> Answering {
        let version = version_of(context);
        let is_known = subject.method != "initialize";
        let route = route_of(context, self.0.session());
        // Who keeps the peer of a call must not keep the span open in which that came.
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
    async fn run<T>(
        self,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        self.run_and_look(work, |_, _| None).await
    }

    /// Answers the request inside its span; an answer may say that something failed.
    async fn run_and_look<T>(
        self,
        work: impl Future<Output = Result<T, ErrorData>>,
        look: impl FnOnce(&T, &Span) -> Option<Failure>,
    ) -> Result<T, ErrorData> {
        let Self { span, cancelled, is_modern } = self;
        let answer = work.instrument(span.to_enter()).await;
        let failure = match &answer {
            Ok(answer) => look(answer, span.span()),
            // Nobody gets it.
            Err(_) if cancelled.is_cancelled() => Some(Failure::CANCELLED),
            // The SDK says it so.
            Err(error) if is_modern && error.code == ErrorCode::RESOURCE_NOT_FOUND => {
                Some(Failure::Code(ErrorCode::INVALID_PARAMS.0))
            }
            Err(error) => Some(Failure::Code(error.code.0)),
        };
        span.end(failure);
        answer
    }
}

impl ServerHandler for Traced {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answering = self.begin(&Subject::method("initialize"), &mut context);
        let work = self.0.initialize(request, context);
        // The version is what this request agrees on.
        let agreed = |answer: &InitializeResult, span: &Span| {
            span.record("mcp.protocol.version", answer.protocol_version.as_str());
            None
        };
        answering.run_and_look(work, agreed).await
    }

    async fn discover(
        &self,
        mut context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let answering = self.begin(&Subject::method("server/discover"), &mut context);
        answering.run(self.0.discover(context)).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.on_initialized(context).await;
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let answering = self.begin(&Subject::method("logging/setLevel"), &mut context);
        answering.run(self.0.set_level(request, context)).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let answering = self.begin(&Subject::method("tools/list"), &mut context);
        answering.run(self.0.list_tools(request, context)).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // What a client makes up is no name of a span.
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

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let answering = self.begin(&Subject::method("resources/list"), &mut context);
        answering.run(self.0.list_resources(request, context)).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let answering = self.begin(&Subject::method("resources/templates/list"), &mut context);
        answering.run(self.0.list_resource_templates(request, context)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let answering =
            self.begin(&Subject::resource("resources/read", &request.uri), &mut context);
        answering.run(self.0.read_resource(request, context)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let answering = self.begin(&Subject::method("prompts/list"), &mut context);
        answering.run(self.0.list_prompts(request, context)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let answering = self.begin(&Subject::prompt("prompts/get", &request.name), &mut context);
        answering.run(self.0.get_prompt(request, context)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let subject = wire::span::of_completion("completion/complete", &request.r#ref);
        let answering = self.begin(&subject, &mut context);
        answering.run(self.0.complete(request, context)).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subject = Subject::resource("resources/subscribe", &request.uri);
        let answering = self.begin(&subject, &mut context);
        answering.run(self.0.subscribe(request, context)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subject = Subject::resource("resources/unsubscribe", &request.uri);
        let answering = self.begin(&subject, &mut context);
        answering.run(self.0.unsubscribe(request, context)).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.0.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.0.listen(context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The conventions' name for what has none.
        let is_known = self.0.knows(&request.method, &context);
        let method = if is_known { request.method.clone() } else { "_OTHER".to_owned() };
        let answering = self.begin(&Subject::method(&method), &mut context);
        answering.run(self.0.on_custom_request(request, context)).await
    }
}
