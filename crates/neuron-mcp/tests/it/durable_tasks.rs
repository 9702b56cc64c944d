//! Tests of durable runs in a SQLite database that a server offers as tasks over HTTP, with approvals by the user of
//! the client.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use neuron_durable_sqlite::{JournalError, RunStatus, SqliteRuns, WaitEvent};
use neuron_loop::{Agent, ApprovalSignal};
use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, HttpConfig, HttpServerConfig,
    InputAnswers, McpClient, McpError, McpPeer, McpServer, McpTask, McpTaskState, McpTasks,
    TaskSource,
};
use neuron_runtime::DurableRuns;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    PendingApproval, PermissionDecision, PermissionPolicy, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::script::text;

/// Id of the run. A real server chooses an unpredictable id.
const RUN: &str = "run-1";

/// A tool that calls a function.
struct FnTool<F>(&'static str, F);

impl<F> ToolDyn for FnTool<F>
where
    F: Fn(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync,
{
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.0.to_owned(),
            title: None,
            description: "a tool of the test".to_owned(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        (self.1)(ctx.clone())
    }
}

fn tool(
    name: &'static str,
    call: impl Fn(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync
    + 'static,
) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(FnTool(name, call)));
    tools
}

/// Requires an approval for each call.
struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("May it pay?".into())
    }
}

/// The runs of a database as tasks.
#[derive(Clone)]
struct Runs(SqliteRuns);

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> ToolError {
    ToolError::ExecutionFailed(Box::new(error))
}

impl Runs {
    /// Returns the pending calls of a run that waits for decisions.
    async fn pending(&self, id: &str) -> Result<Option<PendingApproval>, ToolError> {
        let run = self.0.inspect(id).await.map_err(failed)?;
        Ok(match run.summary.waits_for.map(|wait| wait.event) {
            Some(WaitEvent::Approval { pending, .. }) => pending.map(|pending| *pending),
            _ => None,
        })
    }
}

impl TaskSource for Runs {
    async fn get(&self, id: &str, _: &McpPeer) -> Result<Option<McpTask>, ToolError> {
        let run = match self.0.inspect(id).await {
            Ok(run) => run,
            Err(JournalError::NotFound { .. } | JournalError::InvalidId { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let outcome = run.outcome;
        let state = match (run.summary.status, self.pending(id).await?) {
            (_, Some(pending)) => McpTaskState::approval(&pending),
            (RunStatus::Done, None) => {
                let result = outcome.and_then(|outcome| outcome.result);
                let response = result.map_or_else(String::new, |result| result.response);
                McpTaskState::Completed(ToolOutput::text(response))
            }
            (RunStatus::Failed, None) => {
                let reason = run.summary.reason.unwrap_or_default();
                McpTaskState::Completed(ToolOutput::error(reason))
            }
            (RunStatus::Cancelled, None) => McpTaskState::Cancelled,
            _ => McpTaskState::Working,
        };
        let mut task = McpTask::new(state);
        if let (Some(created), Some(changed)) = (run.summary.created_at, run.summary.changed_at) {
            (task.created_at, task.changed_at) = (created.into(), changed.into());
        }
        Ok(Some(task))
    }

    async fn update(&self, id: &str, answers: InputAnswers, _: &McpPeer) -> Result<(), ToolError> {
        if let Some(pending) = self.pending(id).await?
            && let Some(decisions) = answers.approval_decisions(&pending)
        {
            self.0.decide(id, decisions).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn cancel(&self, id: &str, _: &McpPeer) -> Result<(), ToolError> {
        SqliteRuns::cancel(&self.0, id).await.map_err(failed)
    }
}

/// A process with a server and a pool that drives the runs. Ends when dropped.
struct Process {
    addr: SocketAddr,
    working: JoinSet<()>,
}

impl Process {
    /// Starts a process. `model` continues the conversation, and `paid` counts the calls of the tool `pay`.
    async fn start(
        path: &Path,
        addr: SocketAddr,
        model: &Arc<ScriptedProvider>,
        paid: &Arc<AtomicUsize>,
    ) -> Self {
        let runs = SqliteRuns::open(path).await.unwrap();
        let paid = paid.clone();
        let pay = tool("pay", move |_| {
            paid.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(ToolOutput::text("paid")) })
        });
        let agent = Agent::builder(model.clone()).tools(pay.clone()).permission_policy(Asks);
        let agent = agent.config(|config| {
            let timeout = Duration::from_secs(24 * 60 * 60);
            config.approval_signal = Some(ApprovalSignal { name: "approval".into(), timeout });
        });
        let pool = runs.pool(model.clone(), Arc::new(pay), agent.build());

        let submitted = runs.clone();
        let start = tool("start", move |ctx| {
            let runs = submitted.clone();
            Box::pin(async move {
                runs.run(RUN).submit("Pay.").await.map_err(failed)?;
                let peer = ctx.extensions.get::<McpPeer>().unwrap();
                assert!(peer.answer_with_task(RUN), "the client supports tasks");
                Ok(ToolOutput::text("started"))
            })
        });
        let tasks = McpTasks::new().with_source(Runs(runs));
        let server =
            McpServer::new(start).with_tasks(tasks.with_poll_interval(Duration::from_millis(100)));
        let server = server.bind_http(HttpServerConfig::new(addr)).await.unwrap();
        let addr = server.local_addr();
        let mut working = JoinSet::new();
        working.spawn(async move { server.serve().await.unwrap() });
        working.spawn(async move { pool.run().await.unwrap() });
        Self { addr, working }
    }
}

/// A user who sees the message of each form, and who answers as soon as the test permits it.
struct User {
    forms: mpsc::UnboundedSender<String>,
    may_answer: Arc<Notify>,
    approves: bool,
}

impl ElicitationHandler for User {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, .. } = request else { panic!("no form") };
        self.forms.send(message).unwrap();
        self.may_answer.notified().await;
        Ok(ElicitationResponse::Accept(json!({ "approve": self.approves })))
    }
}

/// Calls the tool `start` and answers the form. If `restarts` is set, the process of the server is replaced while the
/// form is open. Returns the result of the call and the number of payments.
async fn run(approves: bool, restarts: bool) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let replies = [Reply::tool_call("c", "pay", json!({ "sum": 3 })), Reply::text("It is paid.")];
    let model = Arc::new(ScriptedProvider::new(replies));
    let paid = Arc::new(AtomicUsize::new(0));
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut process = Process::start(&path, anywhere, &model, &paid).await;

    let (forms, mut shown) = mpsc::unbounded_channel();
    let may_answer = Arc::new(Notify::new());
    let user = User { forms, may_answer: may_answer.clone(), approves };
    let url = format!("http://{}/mcp", process.addr);
    let config = HttpConfig { url, auth_header: None, headers: vec![] };
    let client = McpClient::builder().elicitation(user).connect_http(config).await.unwrap();

    let answering = async {
        let message = shown.recv().await.unwrap();
        assert!(message.contains("`pay`") && message.contains("May it pay?"), "{message}");
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        if restarts {
            process.working.shutdown().await;
            process = Process::start(&path, process.addr, &model, &paid).await;
        }
        may_answer.notify_one();
    };
    let calling = client.call_tool_json("start", Value::Null);
    let limit = Duration::from_secs(60);
    let (output, ()) =
        tokio::time::timeout(limit, async { tokio::join!(calling, answering) }).await.unwrap();
    let output = text(&output.unwrap());
    assert!(shown.try_recv().is_err(), "the user is asked once");
    client.close().await;
    (output, paid.load(Ordering::SeqCst))
}

#[tokio::test]
async fn durable_run_is_approved_through_the_client() {
    assert_eq!(run(true, false).await, ("It is paid.".to_owned(), 1));
}

#[tokio::test]
async fn durable_run_is_denied_through_the_client() {
    assert_eq!(run(false, false).await, ("It is paid.".to_owned(), 0));
}

#[tokio::test]
async fn durable_run_survives_a_restart_of_the_server_during_the_approval() {
    assert_eq!(run(true, true).await, ("It is paid.".to_owned(), 1));
}
