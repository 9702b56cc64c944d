//! Tests of a loop detector in runs that are interrupted and replayed. The decisions are the same as without an
//! interruption.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::Agent;
use neuron_runtime::LoopDetector;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{AgentResult, LoopError, Message, Role, ToolOutput};
use serde_json::json;

use crate::support::{add_tool, place};

/// The models of an agent and of its sub-agent. The scripts of the two together are one list of replies, in which each
/// model has its own position.
struct Models {
    main: Arc<ScriptedProvider>,
    inner: Arc<ScriptedProvider>,
}

impl Models {
    /// Creates models that have already made `made` of the model calls of the whole run. The model calls after them are
    /// `count`, and then the model does not answer any more.
    fn new(made: usize, count: usize, looks: &str) -> Self {
        let ask = Reply::tool_call("out", "helper", json!({ "prompt": "Look." }));
        let look = |(index, key): (usize, char)| {
            Reply::tool_call(format!("c{index}"), "look", json!({ "key": key.to_string() }))
        };
        let inner = looks.chars().enumerate().map(look).chain([Reply::text("found")]);
        let all = [(true, ask)].into_iter().chain(inner.map(|reply| (false, reply)));
        let all = all.chain([(true, Reply::text("done"))]);
        let part: Vec<_> = all.skip(made).take(count).collect();
        let of = |is_main: bool| {
            let replies = part.iter().filter(|(main, _)| *main == is_main);
            let replies = replies.map(|(_, reply)| reply.clone()).chain([Reply::hang()]);
            Arc::new(ScriptedProvider::new(replies))
        };
        Self { main: of(true), inner: of(false) }
    }

    async fn drive(&self, runs: &SqliteRuns) -> Result<AgentResult, LoopError> {
        let mut tools = ToolRegistry::new();
        add_tool(&mut tools, "look", |_, _| ready(ToolOutput::text("nothing")));
        let mut agents = SubAgentManager::new();
        let helper = SubAgentConfig {
            description: "Looks".into(),
            tools: vec!["look".into()],
            ..SubAgentConfig::default()
        };
        agents.register("helper", helper);
        agents.add_to(&mut tools, self.inner.clone()).unwrap();
        let agent = Agent::builder(self.main.clone()).tools(tools.clone());
        let agent = agent.hook(LoopDetector::new()).build();
        let context = runs.run("r").open(self.main.clone(), Arc::new(tools)).await?;
        context.drive("go", &agent).await
    }

    fn calls(&self) -> usize {
        self.main.calls() + self.inner.calls()
    }

    /// Drives the run until a model does not answer, and drops it there.
    async fn interrupt(&self, runs: &SqliteRuns, calls: usize) {
        let hangs = async {
            while self.calls() < calls {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = self.drive(runs) => panic!("it ended: {ended:?}"),
            () = hangs => {}
        }
    }

    /// Returns the messages of the sub-agent's last request.
    fn last_request(&self) -> Vec<Message> {
        self.inner.requests().pop().unwrap().messages
    }
}

fn outcome(ended: Result<AgentResult, LoopError>) -> String {
    match ended {
        Ok(result) => result.response,
        Err(LoopError::HookTerminated(reason)) => reason,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn interrupted_run_decides_as_without_interruption() {
    // The first sub-agent does not heed the warning, and the second does.
    for (looks, ends_with) in [("xaaaaa", "5 times in a row"), ("aaaab", "done")] {
        let (_folder, path) = place();
        let whole = Models::new(0, 100, looks);
        let expected = outcome(whole.drive(&SqliteRuns::open(&path).await.unwrap()).await);
        assert!(expected.contains(ends_with), "{expected}");
        let warnings = whole.last_request();
        let warnings = warnings.iter().filter(|message| message.role == Role::System);
        assert_eq!(warnings.count(), 2);
        for made in 0..whole.calls() {
            let (_folder, path) = place();
            let runs = SqliteRuns::open(&path).await.unwrap();
            Models::new(0, made, looks).interrupt(&runs, made + 1).await;
            let rest = Models::new(made, 100, looks);
            let runs = SqliteRuns::open(&path).await.unwrap();
            assert_eq!(outcome(rest.drive(&runs).await), expected, "after {made} calls");
            assert_eq!(rest.calls() + made, whole.calls());
            if rest.inner.calls() > 0 {
                assert_eq!(rest.last_request(), whole.last_request(), "after {made} calls");
            }
        }
    }
}
