//! [`Handler`], which implements the methods of the protocol for one connection or HTTP session.
#![expect(deprecated, reason = "logging and subscriptions of older versions of the protocol")]

use std::collections::HashMap;
use std::sync::Arc;

use neuron_types::ToolError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    InputRequiredResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::call::{Call, Ending, Target};
use super::peer::{principal_of, version_of};
use super::prompts::DynPrompts;
use super::resources::DynResources;
use super::serving::Serving;
use super::session::{Closing, Session};
use super::tasks::{Kept, McpTasks, ToolRun, unknown_task};
use super::{cursor, tool_result};
use crate::propagation::Propagation;
use crate::{CompletionTarget, McpVersion, wire};

/// Handles the requests of one connection or HTTP session. Clones share the session's state.
#[derive(Clone)]
pub(crate) struct Handler {
    /// State that all connections of the server share.
    serving: Arc<Serving>,
    /// State of this connection or HTTP session.
    session: Arc<Session>,
}

impl Handler {
    /// Creates a handler with a new session. `transport` is the span attribute `network.transport`, such as `pipe`. Use
    /// `None` over HTTP and for the streams of [`McpServer::serve_io`](crate::McpServer::serve_io).
    pub(crate) fn new(serving: Arc<Serving>, transport: Option<&'static str>) -> Self {
        let server = &serving.server;
        let session = Arc::new(Session::new(server.hub.clone(), server.max_calls, transport));
        Self { serving, session }
    }

    /// Returns the tokens that are cancelled when a connection over a pair of streams ends. They are never cancelled
    /// over HTTP.
    pub(crate) fn closing(&self) -> Closing {
        self.session.closing().clone()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn propagation(&self) -> &Propagation {
        &self.serving.server.propagation
    }

    /// Returns `true` if the current registry has a tool with this name.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.serving.server.hub.tools().definition(name).is_some()
    }

    /// Creates a [`Call`] for a request that runs user code. Returns the errors of [`Call::new`].
    fn call(
        &self,
        context: RequestContext<RoleServer>,
        target: Target<'_>,
    ) -> Result<Call, ErrorData> {
        Call::new(&self.serving, self.session.clone(), context, target)
    }

    /// Returns the user's resources. If the server has none, returns the error "method not found" for `method`.
    fn resources(&self, method: &str) -> Result<&dyn DynResources, ErrorData> {
        self.serving.server.resources.as_deref().ok_or_else(|| method_not_found(method))
    }

    /// Returns the user's prompts. If the server has none, returns the error "method not found" for `method`.
    fn prompts(&self, method: &str) -> Result<&dyn DynPrompts, ErrorData> {
        self.serving.server.prompts.as_deref().ok_or_else(|| method_not_found(method))
    }

    /// Returns the settings of tasks. If the server has none, returns the error "method not found" for `method`.
    fn tasks(&self, method: &str) -> Result<&McpTasks, ErrorData> {
        self.serving.server.tasks.as_ref().ok_or_else(|| method_not_found(method))
    }

    /// Returns the task with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if the version of the request has no tasks, or if the task is unknown and there is no source.
    fn task(
        &self,
        id: &str,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Task, ErrorData> {
        let tasks = self.tasks(method)?;
        if version_of(context).has_handshake() {
            return Err(method_not_found(method));
        }
        match tasks.kept(id, principal_of(context)) {
            Some(task) => Ok(task.stored().map_or(Task::Kept(task), Task::Stored)),
            None if tasks.has_source() => Ok(Task::Stored(id.to_owned())),
            None => Err(unknown_task()),
        }
    }

    /// Returns the requests for input of a failed call of resources or prompts.
    ///
    /// # Errors
    ///
    /// Returns the error for the client if the call needs no input. `unknown` is the error for an unknown item.
    fn input_of(
        &self,
        call: &Call,
        error: &ToolError,
        unknown: ErrorData,
    ) -> Result<InputRequiredResult, ErrorData> {
        match call.ending(&self.serving, &tool_result::text(error))? {
            Ending::InputRequired(result) => Ok(result),
            Ending::TooMuch(text) => Err(ErrorData::internal_error(text, None)),
            Ending::AsItIs => match error {
                ToolError::NotFound(_) => Err(unknown),
                error => Err(refusal(error)),
            },
        }
    }

    /// Returns how long the client may cache a list, in milliseconds. The client does not cache, because tools can change
    /// at any time. Returns `None` before protocol version 2026-07-28, because results then have no field for this time.
    fn list_ttl(version: McpVersion) -> Option<u64> {
        (!version.has_handshake()).then_some(0)
    }

    /// Returns `true` if the server supports the method in the protocol version of the request.
    pub(crate) fn knows(&self, method: &str, context: &RequestContext<RoleServer>) -> bool {
        let server = &self.serving.server;
        // Version 2026-07-28 has no handshake. `server/discover` replaces it, and `subscriptions/listen` replaces the
        // subscriptions to resources.
        match method {
            "tools/call" | "tools/list" => true,
            "initialize" | "logging/setLevel" => version_of(context).has_handshake(),
            "resources/subscribe" | "resources/unsubscribe" => {
                server.resources.is_some() && version_of(context).has_handshake()
            }
            "server/discover" | "subscriptions/listen" => !version_of(context).has_handshake(),
            "resources/list" | "resources/read" | "resources/templates/list" => {
                server.resources.is_some()
            }
            "prompts/get" | "prompts/list" => server.prompts.is_some(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => {
                server.tasks.is_some() && !version_of(context).has_handshake()
            }
            "completion/complete" => server.resources.is_some() || server.prompts.is_some(),
            _ => false,
        }
    }
}

/// The place where a task is stored.
enum Task {
    /// A task in memory.
    Kept(Arc<Kept>),
    /// A task of the source, with its id there.
    Stored(String),
}

/// Implements the [`ServerHandler`] methods that return a page of the user's resources, templates or prompts.
macro_rules! lists {
    ($($list:ident -> $Result:ty: $method:literal, $source:ident.$page:ident, $to_sdk:path;)*) => {$(
        async fn $list(
            &self,
            request: Option<PaginatedRequestParams>,
            context: RequestContext<RoleServer>,
        ) -> Result<$Result, ErrorData> {
            let source = self.$source($method)?;
            let call = self.call(context, Target::list($method))?;
            let cursor = cursor_of(request);
            let work = source.$page(cursor.as_deref(), call.peer());
            let page = call.run(&self.serving, work).await?.map_err(|error| refusal(&error))?;
            let mut result = <$Result>::with_all_items(page.items.iter().map($to_sdk).collect());
            result.next_cursor = page.next_cursor;
            result.ttl_ms = Self::list_ttl(call.peer().version());
            Ok(result)
        }
    )*};
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = &self.serving.server;
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        if server.resources.is_some() {
            let resources = ServerCapabilities::builder()
                .enable_resources()
                .enable_resources_list_changed()
                .enable_resources_subscribe();
            capabilities.resources = resources.build().resources;
        }
        if server.prompts.is_some() {
            let prompts =
                ServerCapabilities::builder().enable_prompts().enable_prompts_list_changed();
            capabilities.prompts = prompts.build().prompts;
        }
        // The protocol has one capability for the completions of both resources and prompts.
        if server.resources.is_some() || server.prompts.is_some() {
            capabilities.completions = Some(JsonObject::default());
        }
        if server.tasks.is_some() {
            capabilities.extensions =
                ServerCapabilities::builder().enable_tasks().build().extensions;
        }
        let mut info = ServerConfig::new(capabilities);
        info.server_info = wire::peer_info::implementation_to_sdk(&server.implementation);
        info.instructions.clone_from(&server.instructions);
        info
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut answer = self.negotiate_initialize(&request)?;
        // The versions with a handshake have no tasks.
        answer.capabilities.extensions = None;
        // Later requests look up the version in the peer info, so the requested version is replaced by the negotiated
        // one.
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        // Collects changes from now on. They are sent after the client's `initialized` notification.
        self.session.listen();
        Ok(answer)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.session.tell(context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !version_of(&context).has_handshake() {
            return Err(method_not_found("logging/setLevel"));
        }
        self.session.set_log_level(wire::log::level_from_sdk(request.level));
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.serving.server.hub.tools();
        let names: Vec<&str> = tools.names().collect();
        let cursor = cursor_of(request);
        let size = self.serving.server.page_size;
        let (page, next) = cursor::page(&names, |name| name, cursor.as_deref(), size)
            .map_err(|_| ErrorData::invalid_params(cursor::INVALID_CURSOR, None))?;
        let definitions = page.iter().filter_map(|name| tools.definition(name));
        let definitions = definitions.map(wire::tool::definition_to_sdk).collect();
        let mut result = ListToolsResult::with_all_items(definitions);
        result.next_cursor = next;
        result.ttl_ms = Self::list_ttl(version_of(&context));
        Ok(result)
    }

    // The SDK validates the `Mcp-Param-*` headers of HTTP requests with the schema of this tool.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.serving.server.hub.tools().definition(name).map(wire::tool::definition_to_sdk)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The call uses this registry to its end, even if `McpNotifier::replace_tools` replaces the tools meanwhile.
        let tools = self.serving.server.hub.tools();
        let name = request.name;
        if tools.definition(&name).is_none() {
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let target = Target {
            method: "tools/call",
            name: &name,
            arguments: &arguments,
            responses: request.input_responses,
            state: request.request_state,
        };
        let call = self.call(context, target)?;
        let name = name.into_owned();
        let run = ToolRun { serving: Arc::clone(&self.serving), tools, name, arguments };
        let tasks = self.serving.server.tasks.clone();
        match tasks.filter(|_| call.peer().supports_tasks()).map(|it| (it.grace(&run.name), it)) {
            Some((Some(grace), tasks)) => run.run_as_task(tasks, call, grace).await,
            _ => run.plain(call).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let asked = request.task_id;
        let id = match self.task(&asked, "tasks/get", &context)? {
            Task::Kept(task) => return Ok(GetTaskResult::new(task.report(&asked))),
            Task::Stored(id) => id,
        };
        let call = self.call(context, Target::list("tasks/get"))?;
        let tasks = self.tasks("tasks/get")?;
        let task = call.run(&self.serving, tasks.stored(&id, &asked, call.peer())).await??;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let given = request.input_responses;
        let id = match self.task(&request.task_id, "tasks/update", &context)? {
            Task::Kept(task) => {
                task.answer(given);
                return Ok(());
            }
            Task::Stored(id) => id,
        };
        let call = self.call(context, Target::list("tasks/update"))?;
        let tasks = self.tasks("tasks/update")?;
        call.run(&self.serving, tasks.update_stored(&id, given, call.peer())).await?
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = match self.task(&request.task_id, "tasks/cancel", &context)? {
            Task::Kept(task) => {
                task.cancel();
                // The task may have become a task of the source meanwhile.
                let Some(id) = task.stored() else { return Ok(()) };
                id
            }
            Task::Stored(id) => id,
        };
        let call = self.call(context, Target::list("tasks/cancel"))?;
        let tasks = self.tasks("tasks/cancel")?;
        call.run(&self.serving, tasks.cancel_stored(&id, call.peer())).await?
    }

    lists! {
        list_resources -> ListResourcesResult:
            "resources/list", resources.list, wire::content::link_to_sdk;
        list_resource_templates -> ListResourceTemplatesResult:
            "resources/templates/list", resources.templates, wire::resource::template_to_sdk;
        list_prompts -> ListPromptsResult: "prompts/list", prompts.list, wire::prompt::to_sdk;
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let resources = self.resources("resources/read")?;
        let target = Target {
            method: "resources/read",
            name: &request.uri,
            arguments: &Value::Null,
            responses: request.input_responses,
            state: request.request_state,
        };
        let call = self.call(context, target)?;
        let work = resources.read(&request.uri, call.peer());
        match call.run(&self.serving, work).await? {
            Ok(contents) => {
                let contents = contents.iter().map(wire::content::contents_to_sdk).collect();
                Ok(ReadResourceResult::new(contents).into())
            }
            Err(error) => {
                // Since 2026-07-28 the SDK replaces this error code (-32002) by the code for invalid parameters.
                let unknown = ErrorData::resource_not_found(
                    format!("resource not found: {}", request.uri),
                    Some(serde_json::json!({ "uri": request.uri })),
                );
                Ok(self.input_of(&call, &error, unknown)?.into())
            }
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompts = self.prompts("prompts/get")?;
        let arguments = prompt_arguments(request.arguments.clone().unwrap_or_default())?;
        let target = Target {
            method: "prompts/get",
            name: &request.name,
            arguments: &Value::Object(request.arguments.unwrap_or_default()),
            responses: request.input_responses,
            state: request.request_state,
        };
        let call = self.call(context, target)?;
        let work = prompts.get(&request.name, &arguments, call.peer());
        match call.run(&self.serving, work).await? {
            Ok(prompt) => Ok(wire::prompt::result_to_sdk(&prompt, call.peer().version()).into()),
            Err(error) => {
                let text = format!("unknown prompt: {}", request.name);
                let unknown = ErrorData::invalid_params(text, None);
                Ok(self.input_of(&call, &error, unknown)?.into())
            }
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Some(query) = wire::completion::query_from_sdk(request) else {
            return Err(ErrorData::invalid_params(
                "unknown completion reference: use ref/prompt or ref/resource",
                None,
            ));
        };
        let call = self.call(context, Target::list("completion/complete"))?;
        let work = match query.target {
            CompletionTarget::Prompt(_) => {
                self.prompts("completion/complete")?.complete(&query, call.peer())
            }
            CompletionTarget::Resource(_) => {
                self.resources("completion/complete")?.complete(&query, call.peer())
            }
        };
        let completion = call.run(&self.serving, work).await?.map_err(|error| refusal(&error))?;
        Ok(CompleteResult::new(wire::completion::to_sdk(completion)))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.resources("resources/subscribe")?;
        match self.session.subscribe(request.uri) {
            true => Ok(()),
            false => Err(ErrorData::invalid_params(
                "too many subscriptions: unsubscribe from a resource first",
                None,
            )),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.resources("resources/unsubscribe")?;
        self.session.unsubscribe(request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // The SDK calls this method before it informs the client, so no change after that is lost.
        self.session
            .accept(wire::change::wanted(&requested.supported_by(&self.get_info().capabilities)));
        // The SDK removes the kinds of changes that the server does not support.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let listener = self.session.begin(wire::change::wanted(context.accepted()));
        let tell = async {
            while let Some(change) = listener.next().await {
                if context.sink().send(wire::change::notification(change)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            () = self.serving.server.shutdown.cancelled() => {}
            () = self.session.closing().input_ended.cancelled() => {}
            () = tell => {}
        }
        // The SDK sends a final result, so the client learns that the subscription has ended.
        Ok(())
    }

    /// Rejects a request that the SDK could not parse. If the method is supported, the error is "invalid parameters".
    /// Otherwise it is "method not found".
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        match self.knows(&method, &context) {
            true => {
                let text = format!("invalid parameters for {method}: see the protocol's schema");
                Err(ErrorData::invalid_params(text, None))
            }
            false => Err(method_not_found(&method)),
        }
    }
}

fn method_not_found(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("method not found: {method}"), None)
}

/// Returns the cursor of a list request. Returns `None` for the first page.
fn cursor_of(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

/// Converts an error of the user's resources or prompts into a JSON-RPC error.
fn refusal(error: &ToolError) -> ErrorData {
    let text = tool_result::text(error);
    match error {
        ToolError::InvalidInput(_) | ToolError::NotFound(_) => {
            ErrorData::invalid_params(text, None)
        }
        _ => ErrorData::internal_error(text, None),
    }
}

/// Converts the arguments of a prompt to text. Returns an error if an argument is not a JSON string.
fn prompt_arguments(arguments: JsonObject) -> Result<HashMap<String, String>, ErrorData> {
    let text = |(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => {
            let text = format!("the argument `{name}` of a prompt must be a string");
            Err(ErrorData::invalid_params(text, None))
        }
    };
    arguments.into_iter().map(text).collect()
}
