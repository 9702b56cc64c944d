//! [`ToolRun`], the execution of a tool call, which may become a task.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ContentItem, PendingApproval, ProgressReporter, ResumedApproval, ToolError, ToolOutput,
};
use rmcp::model::{
    CallToolResponse, CreateTaskResult, ErrorData, InputRequests, InputResponses, JsonObject,
    TaskPayload,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::kept::Kept;
use super::source::result;
use super::{McpTaskState, McpTasks};
use crate::server::InputAnswers;
use crate::server::call::{Call, Ending};
use crate::server::inputs::fitting_answer;
use crate::server::peer::{McpPeer, principal_of};
use crate::server::rounds::MAX_ROUNDS;
use crate::server::serving::Serving;
use crate::server::tool_result;
use crate::wire;

/// The tool that a client calls, with its arguments.
pub(crate) struct ToolRun {
    pub(crate) serving: Arc<Serving>,
    pub(crate) tools: Arc<ToolRegistry>,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// The result of running a tool once. The outer error is the reason why the call itself failed.
type Ran = Result<Result<ToolOutput, ToolError>, ErrorData>;

type Response = Result<CallToolResponse, ErrorData>;

impl ToolRun {
    /// Runs the tool and returns the response.
    pub(crate) async fn plain(self, call: Call) -> Response {
        let context = call.tool_context(&self.serving);
        let work = self.tools.execute(&self.name, self.arguments.clone(), &context);
        let ran = call.run(&self.serving, work).await;
        self.respond(&call, ran).await
    }

    /// Converts the result of the tool to the response. If a failed call has open requests to the client, these
    /// requests are returned instead of the failure.
    async fn respond(&self, call: &Call, ran: Ran) -> Response {
        let output = ran?.unwrap_or_else(|error| tool_result::of_error(&error));
        let version = call.peer().version();
        if output.is_error {
            match call.ending(&self.serving, &text_of(&output))? {
                Ending::AsItIs => {}
                Ending::InputRequired(result) => return Ok(result.into()),
                Ending::TooMuch(text) => {
                    return Ok(wire::tool::output_to_sdk(&ToolOutput::error(text), version).into());
                }
            }
        } else if let Some(id) = call.peer().inputs().task() {
            let tasks = self.serving.server.tasks.clone().unwrap_or_default();
            // An error if the task does not exist yet, because clients may request its state at once.
            tasks.source()?;
            let task = call.run(&self.serving, tasks.stored(&id, &id, call.peer())).await??;
            return Ok(CallToolResponse::Task(CreateTaskResult::new(task.task)));
        }
        Ok(wire::tool::output_to_sdk(&output, version).into())
    }

    /// Runs the tool. If it has not ended after `grace`, or requires an approval, the response is a task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    pub(crate) async fn run_as_task(
        self,
        tasks: McpTasks,
        mut call: Call,
        grace: Duration,
    ) -> Response {
        let peer = call.peer().clone();
        let principal = principal_of(peer.context()).map(str::to_owned);
        let task = Arc::new(Kept::new(principal, tasks.ttl, tasks.poll_interval_ms()));
        call.cancel_with(task.cancelled.clone());
        let unless_answered = task.cancelled.clone().drop_guard();
        let (sender, mut response) = oneshot::channel();
        let (ours, theirs) = (Arc::clone(&task), tasks.clone());
        let serving = Arc::clone(&self.serving);
        let worker = Worker { run: self, tasks: theirs, task: ours, call, first: Some(sender) };
        serving.spawn(worker.work().in_current_span());

        let mut may_become_task = true;
        loop {
            tokio::select! {
                biased;
                response = &mut response => {
                    unless_answered.disarm();
                    return response.unwrap_or_else(|_| {
                        Err(ErrorData::internal_error("the server ended the call", None))
                    });
                }
                () = peer.context().ct.cancelled() => {
                    return Err(ErrorData::internal_error("cancelled", None));
                }
                () = tokio::time::sleep(grace), if may_become_task => {
                    may_become_task = false;
                    if let Some(id) = task.promote(|| tasks.keep(&task)) {
                        unless_answered.disarm();
                        // Tasks have no progress and log notifications (tasks extension, "Task Status Notifications").
                        peer.outbox().close();
                        return Ok(created(&task, &id));
                    }
                }
            }
        }
    }
}

/// Runs a tool independently of the request that called it.
struct Worker {
    run: ToolRun,
    tasks: McpTasks,
    task: Arc<Kept>,
    call: Call,
    /// Sends the response to the request. `None` once it is sent.
    first: Option<oneshot::Sender<Response>>,
}

/// The end of a [`Worker`].
enum End {
    /// The tool ended before its call became a task.
    Call(Ran),
    Task(TaskPayload),
    /// The tool has started a task of the source with this id.
    Stored(String),
}

impl Worker {
    async fn work(mut self) {
        let ttl = self.tasks.ttl;
        match tokio::time::timeout(ttl, self.run_to_end()).await {
            Ok(End::Call(ran)) => {
                let response = self.run.respond(&self.call, ran).await;
                if !self.send(response) {
                    self.call.cancel_task(&self.run.serving).await;
                }
            }
            Ok(End::Stored(id)) => {
                self.task.store(id);
                // The client may have cancelled the task while the tool returned.
                if self.task.cancelled.is_cancelled() {
                    self.call.cancel_task(&self.run.serving).await;
                }
            }
            Ok(End::Task(payload)) => self.task.end(payload, None),
            Err(_) => {
                self.call.cancel_task(&self.run.serving).await;
                let text = format!("the task took more than {ttl:?}");
                let error = ErrorData::internal_error(text.clone(), None);
                match self.task.end_call() {
                    true => drop(self.send(Err(error))),
                    false => self.task.end(failed(&error), Some(text)),
                }
            }
        }
    }

    /// Sends the response to the request. Returns `false` if the client has cancelled the request.
    fn send(&mut self, response: Response) -> bool {
        self.first.take().is_some_and(|first| first.send(response).is_ok())
    }

    /// Runs the tool, again with each input of the client, until it needs no input.
    async fn run_to_end(&mut self) -> End {
        let mut ran = self.execute(None).await;
        if self.pending(&ran).is_some()
            && let Some(id) = self.task.promote(|| self.tasks.keep(&self.task))
        {
            self.send(Ok(created(&self.task, &id)));
        }
        if self.task.end_call() {
            return End::Call(ran);
        }
        let mut answers = self.call.peer().inputs().answers();
        let mut resumed = None;
        for round in 0.. {
            match self.pending(&ran) {
                Some(pending) => match self.approval(round, pending).await {
                    ControlFlow::Continue(Some(approval)) => resumed = Some(approval),
                    ControlFlow::Continue(None) => continue,
                    ControlFlow::Break(end) => return end,
                },
                None => {
                    let output = match ran {
                        Ok(result) => result.unwrap_or_else(|error| tool_result::of_error(&error)),
                        Err(_) if self.task.cancelled.is_cancelled() => {
                            return End::Task(TaskPayload::Cancelled);
                        }
                        Err(error) => return End::Task(failed(&error)),
                    };
                    if !output.is_error {
                        return match self.call.peer().inputs().task() {
                            Some(id) => End::Stored(id),
                            None => self.completed(&output),
                        };
                    }
                    let open = match self.call.open_requests(&text_of(&output)) {
                        Ok(open) => open,
                        Err(error) => return End::Task(failed(&error)),
                    };
                    if open.is_empty() || round >= MAX_ROUNDS {
                        return self.completed(&output);
                    }
                    match self.input(round, open).await {
                        Some(given) => answers.extend(given),
                        None => return End::Task(TaskPayload::Cancelled),
                    }
                }
            }
            self.call.repeat(answers.clone());
            ran = self.execute(resumed.clone()).await;
        }
        End::Task(TaskPayload::Cancelled)
    }

    /// Runs the tool once. `resumed` has the decisions on the calls of an agent inside the call.
    async fn execute(&self, resumed: Option<ResumedApproval>) -> Ran {
        let Self { run, call, .. } = self;
        let mut context = call.tool_context(&run.serving);
        let reporter = Reporter { peer: call.peer().clone(), task: Arc::clone(&self.task) };
        context.progress_reporter = Some(Arc::new(reporter));
        if let Some(resumed) = resumed {
            context.extensions.insert(resumed);
        }
        let work = run.tools.execute(&run.name, run.arguments.clone(), &context);
        call.run(&run.serving, work).await
    }

    /// Returns the pending calls of an agent inside the call, if the client can show forms for them.
    fn pending<'r>(&self, ran: &'r Ran) -> Option<&'r PendingApproval> {
        match ran {
            Ok(Err(ToolError::ApprovalRequired(pending))) => {
                self.call.peer().supports_elicitation_form().then_some(pending)
            }
            _ => None,
        }
    }

    /// Waits for the user's decisions. Returns the end of the task if the user has not decided, or if the task is over.
    /// Returns `None` if the user must be asked again, because a response does not fit its form.
    async fn approval(
        &self,
        round: u32,
        pending: &PendingApproval,
    ) -> ControlFlow<End, Option<ResumedApproval>> {
        let over = ControlFlow::Break(End::Task(TaskPayload::Cancelled));
        let McpTaskState::InputRequired(forms) = McpTaskState::approval(pending) else {
            return over;
        };
        let to_sdk = |(key, form): (&String, _)| {
            Some((key.clone(), wire::input::request_to_sdk(form, None).ok()?))
        };
        let asked = forms.iter().filter_map(to_sdk).collect();
        let Some(given) = self.input(round, asked).await else { return over };
        let responses = given.len();
        let fitting = |(key, answer): (String, Value)| {
            let answer = fitting_answer(forms.get(&key)?, &answer)?;
            Some((key, answer))
        };
        let answers = InputAnswers(given.into_iter().filter_map(fitting).collect());
        match answers.approval_decisions(pending) {
            Some(decisions) => {
                ControlFlow::Continue(Some(ResumedApproval::new(pending.clone(), decisions)))
            }
            None if answers.0.len() < responses => ControlFlow::Continue(None),
            None => {
                let text = "not executed: the user did not decide on the approval";
                ControlFlow::Break(self.completed(&ToolOutput::error(text)))
            }
        }
    }

    /// Waits for the client's responses. Returns `None` if the task is over.
    async fn input(&self, round: u32, asked: InputRequests) -> Option<InputResponses> {
        tokio::select! {
            biased;
            () = self.call.over(&self.run.serving) => None,
            given = self.task.ask(round, asked) => Some(given),
        }
    }

    fn completed(&self, output: &ToolOutput) -> End {
        End::Task(TaskPayload::Completed { result: result(output, self.call.peer()) })
    }
}

/// Returns the response to a call that became a task.
fn created(task: &Kept, id: &str) -> CallToolResponse {
    CallToolResponse::Task(CreateTaskResult::new(task.report(id).task))
}

/// Returns the payload of a failed task.
fn failed(error: &ErrorData) -> TaskPayload {
    let error = match serde_json::to_value(error) {
        Ok(Value::Object(error)) => error,
        _ => JsonObject::new(),
    };
    TaskPayload::Failed { error }
}

/// Joins the content items of a tool result into one text.
fn text_of(output: &ToolOutput) -> String {
    output.content.iter().map(ContentItem::to_string).collect::<Vec<_>>().join("\n")
}

/// Passes progress to the client until the call becomes a task. Then the messages become the status of the task.
struct Reporter {
    peer: McpPeer,
    task: Arc<Kept>,
}

impl ProgressReporter for Reporter {
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.peer.report_progress(progress, total, message);
        if let Some(message) = message {
            self.task.set_message(message);
        }
    }
}
